// Every kernel of the language's examples that has plain types and mxfp8 runs, and means what the naive evaluation
// says. The others are refused by the name of what is missing.
#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/differentiate.h"
#include "jit/inputs.h"
#include "tests/semantics/spec_support.h"
#include "tests/support/naive_outputs.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Small sizes for whatever the kernel has, with whole MX blocks along every dimension of a tensor.
ir::Graph small_graph(const Program& program, const std::string& name) {
  const std::map<std::string, int64_t> small = {{"E", 3}, {"K", 32}, {"I", 32}, {"N", 32}, {"H", 32}, {"J", 3}};
  Diagnostics diagnostics;
  const auto open = resolve(program, name, {}, diagnostics);
  INFO(name << "\n" << diagnostics.print());
  REQUIRE(open);
  ResolveOptions options;
  for (const ir::Dimension& dim : open->dims)
    if (dim.kind == ir::DimKind::fixed) options.dims[dim.name] = small.at(dim.name);
  options.require_bound = true;
  const auto graph = resolve(program, name, options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return *graph;
}

jit::InputOptions options_for(const ir::Graph& graph) {
  jit::InputOptions options;
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.kind == ir::DimKind::dynamic) options.sizes[dim.name] = dim.name == "C" ? 20 : dim.name == "L" ? 2 : 13;
    if (dim.kind == ir::DimKind::grouped) options.counts = {5, 0, 17};
  }
  options.slack_rows = 6;
  options.seed = 3;
  return options;
}

void compare(const ir::Graph& graph, const jit::InputOptions& options) {
  const auto inputs = jit::make_inputs(graph, options);
  INFO((inputs ? "" : inputs.error().message));
  REQUIRE(inputs);
  // What outputs hold before: 0xFF, and whole numbers where something is added.
  const ir::Graph differentiated = lowering::differentiate(graph);
  const auto problem = interpreter::Problem::bind(differentiated, *inputs, {});
  REQUIRE(problem);
  interpreter::Buffers before = *interpreter::make_outputs(*problem, 0xFF);
  for (const ir::Output& output : graph.outputs)
    if (output.accumulate)
      for (int64_t i = 0; i < before.at(output.tensor.name).elements(); ++i)
        interpreter::store_one(before.at(output.tensor.name), i, static_cast<double>(i % 7 - 3));
  interpreter::Buffers all = *inputs;
  all.insert(before.begin(), before.end());
  const auto outputs = interpreter::run(differentiated, all);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  NaiveEvaluation evaluation(graph, *inputs);
  const NaiveReport report = compare_naively(evaluation, *outputs, before);
  CHECK(report.mismatch == "");
  CHECK(report.elements > 0);
  CHECK(report.undecided == 0);
}

}  // namespace

TEST_CASE("the kernels of the language run, and mean what a naive evaluation says") {
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  std::map<std::string, std::vector<std::string>> refused;
  int compared = 0;
  for (const std::string& name : kernel_names(program)) {
    INFO(name);
    const ir::Graph graph = small_graph(program, name);
    std::string missing;
    for (const auto& tensors : {graph.inputs}) {
      for (const ir::Input& input : tensors)
        if (const ir::TensorType& type = input.tensor.type;
            type.scaled() && (type.format != ir::Format::mxfp8 || type.layout != ir::ScaleLayout::rows))
          missing = "type";
    }
    for (const ir::Output& output : graph.outputs)
      if (const ir::TensorType& type = output.tensor.type;
          type.scaled() && (type.format != ir::Format::mxfp8 || type.layout != ir::ScaleLayout::rows))
        missing = "type";
    for (const ir::Node& node : graph.nodes)
      if (node.op == ir::Op::hadamard) missing = "hadamard";
    if (!missing.empty()) {
      refused[missing].push_back(name);
      continue;
    }
    compare(graph, options_for(graph));
    ++compared;
  }
  INFO(compared);
  CHECK(compared + refused["type"].size() + refused["hadamard"].size() == 46);
  CHECK(compared >= 24);
}

TEST_CASE("products of every kind that the examples do not have") {
  const std::string groups = "kernel test {\n  dim E = 3, K = 16, N = 8\n  group M by E\n";
  const std::vector<std::string> bodies = {
      // contractions of a dimension that is dealt out in pieces, of gathered rows, and of both kinds of rows
      "in x : bf16[M, 2*K]\nin w : bf16[E, N, K]\na, b = split(x, 8)\nout y : f32[M, N] = gemm(b, w)",
      "dyn T\nin x : bf16[T, K]\nin i : i32[M]\nin d : bf16[M, N]\nout y : f32[E, N, K] = gemm(d, x[i])",
      "group P = M align 8\nin x : bf16[K, P]\nin d : bf16[M, N]\nout y : bf16[E, K, N] += gemm(d, x)",
      // grouped and batched at once
      "dyn B\nin x : bf16[B, M, K]\nin w : bf16[B, E, N, K]\nout y : f32[B, M, N] = gemm(x, w)",
      "dyn B\nin x : bf16[B, M, K]\nin d : bf16[B, M, N]\nout y : f32[B, E, N, K] += gemm(d, x)",
      // sums that are not over rows of groups: an empty group has one too
      "in x : bf16[M, K]\nin w : bf16[E, N, K]\nout s : f32[E] = sum(w)\nout y : f32[E, K] = amax(x)",
      // a reduction that is quantised
      "in w : bf16[E, N, K]\nin x : bf16[M, K]\nout s : mxfp8[E, K] = amax(x)",
  };
  for (const std::string& body : bodies) {
    INFO(body);
    ResolveOptions bound;
    bound.require_bound = true;
    const ir::Graph graph = resolve_text(groups + body + "\n}\n", bound);
    jit::InputOptions options = options_for(graph);
    for (auto& [name, size] : options.sizes) size = name == "B" ? 2 : 9;
    compare(graph, options);
  }
}
