// Random specs in the interpreter against an evaluation of its own kind, and the shrinker that makes failures small.
#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/differentiate.h"
#include "tests/semantics/spec_support.h"
#include "tests/support/naive_outputs.h"
#include "tests/support/random_inputs.h"
#include "tests/support/refusals.h"
#include "tests/support/shrink_spec.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

ir::Graph graph_of(const RandomSpec& spec) {
  ResolveOptions options;
  options.left_out = spec.left_out;
  options.require_bound = true;
  return resolve_text(spec.text, options);
}

struct Comparison {
  NaiveReport report;
  std::string refusal;  // what the interpreter does not have yet
};

// Takes a result, or fails the test; nothing where what stands against it is a refusal by name.
template <class T>
std::optional<T> taken(Result<T> result, Comparison& into) {
  if (result) return *std::move(result);
  into.refusal = result.error().message;
  INFO(into.refusal);
  REQUIRE(into.refusal.ends_with(" yet"));
  return std::nullopt;
}

// Runs a spec in the interpreter; `spoil` may change what it stores before that is compared.
Comparison compare(const RandomSpec& spec,
                   const std::function<void(const ir::Graph&, interpreter::Buffers&)>& spoil = {}) {
  Comparison result;
  const ir::Graph graph = graph_of(spec), differentiated = lowering::differentiate(graph);
  const auto inputs = taken(jit::make_inputs(graph, input_options(spec)), result);
  if (!inputs) return result;
  const auto problem = taken(interpreter::Problem::bind(differentiated, *inputs, {}), result);
  if (!problem) return result;
  interpreter::Buffers before = *interpreter::make_outputs(*problem, 0xFF);
  for (const ir::Output& output : graph.outputs)
    if (output.accumulate)
      for (int64_t i = 0; i < before.at(output.tensor.name).elements(); ++i)
        interpreter::store_one(before.at(output.tensor.name), i, static_cast<double>(i % 7 - 3));
  interpreter::Buffers all = *inputs;
  all.insert(before.begin(), before.end());
  auto outputs = taken(interpreter::run(differentiated, all, {}, nullptr, 1), result);
  if (!outputs) return result;
  if (spoil) spoil(graph, *outputs);
  NaiveEvaluation evaluation(graph, *inputs);
  result.report = compare_naively(evaluation, *outputs, before);
  return result;
}

bool differs(const RandomSpec& spec) { return !compare(spec).report.mismatch.empty(); }

// What a spec has that the others need not have.
void count_parts(const ir::Graph& graph, std::map<std::string, int>& seen) {
  bool scaled = false;
  for (const ir::Output& output : graph.outputs) {
    const ir::TensorType& type = output.tensor.type;
    if (graph.nodes[static_cast<size_t>(output.value)].op == ir::Op::group_ends) ++seen["ends"];
    if (!type.scaled()) continue;
    const std::string name(ir::format_info(type.format).name);
    const bool wide = storage_bits(type.element) == 8;
    ++seen[wide ? name + " " + std::string(storage_name(type.element)) : name];
    ++seen[name + " " + std::string(ir::rule_name(type.rule))];
    ++seen[name + " " + std::string(ir::layout_name(type.layout))];
    if (type.nonfinite == ir::NonFinite::te) ++seen[name + " te"];
    if (type.along_axis >= 0) ++seen[name + " along"];
    if (!type.seed_input.empty()) ++seen[name + " seed"];
    if (!type.amax_input.empty()) ++seen[name + " amax"];
    scaled = scaled || type.format != ir::Format::mxfp8 || ir::print_type(type) != "mxfp8";
  }
  if (scaled) ++seen["scaled"];
  for (const ir::Node& node : graph.nodes)
    if (node.op == ir::Op::hadamard) ++seen[node.signs.value_or(0) == 0 ? "hadamard" : "hadamard with signs"];
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.slot) ++seen["slot"];
    if (dim.kind == ir::DimKind::grouped && dim.align != 1) ++seen["align"];
    if (dim.kind == ir::DimKind::grouped && dim.sizes_storage == Storage::i64) ++seen["i64"];
  }
}

}  // namespace

TEST_CASE("three hundred random specs mean what a naive evaluation says") {
  int64_t elements = 0, undecided = 0;
  std::map<std::string, int64_t> blocks;
  std::map<std::string, int> seen;
  Refusals refusals;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomSpec spec = random_spec(seed, SpecSize::tiny);
    INFO(spec.describe());
    count_parts(graph_of(spec), seen);
    const Comparison result = compare(spec);
    if (!result.refusal.empty()) {
      refusals.add(result.refusal);
      continue;
    }
    CHECK(result.report.mismatch == "");
    if (!result.report.mismatch.empty()) {
      const RandomSpec small = shrink(spec, differs);
      INFO("shrunk:\n" << small.describe() << compare(small).report.mismatch);
      CHECK(false);
    }
    elements += result.report.elements;
    undecided += result.report.undecided;
    for (const auto& [kind, count] : result.report.blocks) blocks[kind] += count;
  }
  refusals.print(300);
  CHECK(elements > 300 * 500);
  CHECK(undecided < elements / 200);
  for (const char* kind : {"finite", "zero", "subnormal", "not finite"}) {
    INFO(kind);
    CHECK(blocks[kind] > 30);
  }
  // Half of the specs have more than plain MXFP8, and each option of each format stands in some.
  CHECK(seen["scaled"] > 120);
  CHECK(seen["hadamard"] + seen["hadamard with signs"] > 35);
  for (const ir::FormatInfo& format : ir::all_formats()) {
    if (!format.scaled) continue;
    for (const char* what : {"up", "rows", "columns_tma", "te", "along", "seed"}) {
      INFO(format.name << " " << what);
      CHECK(seen[std::string(format.name) + " " + what] >= 1);
    }
  }
  for (const char* what :
       {"hadamard with signs", "slot", "align", "i64", "ends", "nvfp4 amax", "nvfp4 blocked_128x4"}) {
    INFO(what);
    CHECK(seen[what] >= 3);
  }
}

TEST_CASE("a failure is shrunk to the operation that shows it") {
  // An interpreter that forgets the sign of tanh somewhere: found by the outputs that hang on a tanh.
  const auto hangs_on_tanh = [](const ir::Graph& graph, ir::NodeId id) {
    std::vector<bool> needed(graph.nodes.size());
    needed[static_cast<size_t>(id)] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      if (graph.nodes[i].op == ir::Op::tanh) return true;
      for (const ir::NodeId arg : graph.nodes[i].args) needed[static_cast<size_t>(arg)] = true;
    }
    return false;
  };
  const auto spoil = [&](const ir::Graph& graph, interpreter::Buffers& outputs) {
    for (const ir::Output& output : graph.outputs)
      if (hangs_on_tanh(graph, output.value))
        for (uint8_t& byte : outputs.at(output.tensor.name).bytes) byte ^= 0x55;
  };
  const auto fails = [&](const RandomSpec& spec) { return !compare(spec, spoil).report.mismatch.empty(); };
  int shrunk = 0;
  for (uint64_t seed = 0; seed < 200 && shrunk < 5; ++seed) {
    const RandomSpec spec = random_spec(seed, SpecSize::tiny);
    if (!fails(spec)) continue;
    INFO(spec.describe());
    const RandomSpec small = shrink(spec, fails, 300);
    INFO(small.describe());
    CHECK(fails(small));
    CHECK(small.text.find("tanh(") != std::string::npos);
    CHECK(std::count(small.text.begin(), small.text.end(), '\n') <= 14);
    CHECK(small.text.find(" out ") == small.text.rfind(" out "));
    CHECK((!small.counts || small.counts->size() == 1));
    ++shrunk;
  }
  CHECK(shrunk == 5);
}
