// From the text of a spec to the bytes that the interpreter leaves in its outputs.
#pragma once

#include "compiler/interpreter/interpreter.h"
#include "jit/inputs.h"
#include "tests/cases/written_bytes.h"
#include "tests/semantics/spec_support.h"
#include "tests/support/host_data.h"

namespace epifuse::test {

using Dims = std::map<std::string, int64_t>;

inline ir::Graph graph_of(const std::string& text, const Dims& dims, const std::string& kernel = "") {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics, {{"activations.epi", read_file("specs/lib/activations.epi")}});
  ResolveOptions options;
  options.dims = dims;
  options.require_bound = true;
  const auto graph = resolve(program, kernel, options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return *graph;
}

// Outputs that are in `buffers` hold those bytes before, the others `poison`.
inline interpreter::Buffers interpret(const ir::Graph& graph, interpreter::Buffers buffers, uint8_t poison = 0xFF,
                                      const interpreter::Params& params = {}) {
  const auto problem = interpreter::Problem::bind(graph, buffers, params);
  INFO((problem ? "" : problem.error().message));
  REQUIRE(problem);
  const auto poisoned = interpreter::make_outputs(*problem, poison);
  REQUIRE(poisoned);
  buffers.insert(poisoned->begin(), poisoned->end());
  auto outputs = interpreter::run(graph, buffers, params);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  return *std::move(outputs);
}

// Inputs made from a seed, with NaN in the rows of no group.
inline interpreter::Buffers made_inputs(const ir::Graph& graph, const std::vector<int64_t>& counts, int64_t slack,
                                        jit::DataMode mode = jit::DataMode::normal) {
  jit::InputOptions options;
  options.counts = counts;
  options.slack_rows = slack;
  options.mode = mode;
  options.seed = 17;
  auto inputs = jit::make_inputs(graph, options);
  INFO((inputs ? "" : inputs.error().message));
  REQUIRE(inputs);
  return *std::move(inputs);
}

// The inputs whose rows are the capacity of M: all that has one row for each token.
inline std::vector<std::string> token_inputs(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Input& input : graph.inputs) {
    const ir::Shape& shape = input.tensor.shape;
    if (!shape.empty() && shape[0].dim >= 0 &&
        graph.dims[static_cast<size_t>(shape[0].dim)].kind == ir::DimKind::grouped)
      names.push_back(input.tensor.name);
  }
  return names;
}

}  // namespace epifuse::test
