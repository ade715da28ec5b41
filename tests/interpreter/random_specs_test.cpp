// Random specs in the interpreter against an evaluation of its own kind, and the shrinker that makes failures small.
#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/differentiate.h"
#include "jit/inputs.h"
#include "tests/semantics/spec_support.h"
#include "tests/support/naive_outputs.h"
#include "tests/support/random_spec.h"
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

interpreter::Buffers inputs_of(const RandomSpec& spec, const ir::Graph& graph) {
  jit::InputOptions options;
  options.counts = spec.counts;
  options.sizes = spec.sizes;
  options.slack_rows = spec.slack_rows;
  options.seed = spec.seed;
  auto inputs = jit::make_inputs(graph, options);
  INFO((inputs ? "" : inputs.error().message));
  REQUIRE(inputs);
  return *std::move(inputs);
}

// Runs a spec in the interpreter; `spoil` may change what it stores before that is compared.
NaiveReport compare(const RandomSpec& spec,
                    const std::function<void(const ir::Graph&, interpreter::Buffers&)>& spoil = {}) {
  const ir::Graph graph = graph_of(spec), differentiated = lowering::differentiate(graph);
  interpreter::Buffers inputs = inputs_of(spec, graph);
  const auto problem = interpreter::Problem::bind(differentiated, inputs, {});
  INFO((problem ? "" : problem.error().message));
  REQUIRE(problem);
  interpreter::Buffers before = *interpreter::make_outputs(*problem, 0xFF);
  for (const ir::Output& output : graph.outputs)
    if (output.accumulate)
      for (int64_t i = 0; i < before.at(output.tensor.name).elements(); ++i)
        interpreter::store_one(before.at(output.tensor.name), i, static_cast<double>(i % 7 - 3));
  interpreter::Buffers all = inputs;
  all.insert(before.begin(), before.end());
  auto outputs = interpreter::run(differentiated, all, {}, nullptr, 1);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  if (spoil) spoil(graph, *outputs);
  NaiveEvaluation evaluation(graph, inputs);
  return compare_naively(evaluation, *outputs, before);
}

}  // namespace

TEST_CASE("three hundred random specs mean what a naive evaluation says") {
  int64_t elements = 0, undecided = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomSpec spec = random_spec(seed, SpecSize::tiny);
    INFO(spec.describe());
    const NaiveReport report = compare(spec);
    CHECK(report.mismatch == "");
    if (!report.mismatch.empty()) {
      const RandomSpec small = shrink(spec, [](const RandomSpec& s) { return !compare(s).mismatch.empty(); });
      INFO("shrunk:\n" << small.describe() << compare(small).mismatch);
      CHECK(false);
    }
    elements += report.elements;
    undecided += report.undecided;
  }
  CHECK(elements > 300 * 500);
  CHECK(undecided < elements / 200);
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
  const auto fails = [&](const RandomSpec& spec) { return !compare(spec, spoil).mismatch.empty(); };
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
