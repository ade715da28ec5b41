// Kernels for the tests of lowering and emission: from a text to a graph, and through the passes to plans.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/target.h"
#include "compiler/lowering/pipeline.h"
#include "tests/semantics/spec_support.h"

namespace epifuse::test {

// The passes over the graph of a text, without what comes behind them.
inline ir::Graph simplified(ir::Graph graph) {
  for (const lowering::Pass& pass : lowering::passes()) graph = pass.run(std::move(graph));
  return graph;
}

struct LoweredText {
  lowering::Lowered lowered;
  Diagnostics diagnostics;

  // The first plan, or that of a schedule.
  const lowering::KernelPlan& plan(std::string_view schedule = "") const {
    INFO(diagnostics.print());
    REQUIRE(!lowered.plans.empty());
    for (const lowering::KernelPlan& plan : lowered.plans)
      if (schedule.empty() || lowering::schedule_name(plan.schedule) == schedule) return plan;
    FAIL("no plan " << schedule);
    return lowered.plans.front();
  }
};

inline LoweredText lower_graph(const ir::Graph& graph, std::string_view schedule = "") {
  LoweredText result;
  result.lowered = lowering::lower(graph, Target{}, {.only = schedule}, result.diagnostics);
  return result;
}

// All that a tuner chooses from.
inline LoweredText lower_all(const ir::Graph& graph) {
  LoweredText result;
  result.lowered = lowering::lower(graph, Target{}, {.all = true}, result.diagnostics);
  return result;
}

// Every tile that a kernel can have, each with the planner's choices: by index, or in pairs.
inline LoweredText lower_tiles(const std::string& text, bool pairs = false) {
  INFO(text);
  LoweredText result = lower_all(resolve_text(text, {}));
  std::erase_if(result.lowered.plans, [&](const lowering::KernelPlan& plan) {
    const lowering::Schedule& s = plan.schedule;
    return s.stages != s.usual_stages || s.order() != lowering::TileOrder{.pairs = pairs};
  });
  return result;
}

inline LoweredText lower_text(const std::string& text, std::string_view schedule = "",
                              std::set<std::string> left_out = {}) {
  INFO(text);
  ResolveOptions options;
  options.left_out = std::move(left_out);
  return lower_graph(resolve_text(text, options), schedule);
}

// The example specs that this compiler must lower: specs/*.epi, each with one kernel and default dims.
inline std::vector<std::string> spec_paths() {
  std::vector<std::string> paths;
  for (const std::string& path : example_paths())
    if (path.starts_with("specs/")) paths.push_back(path);
  return paths;
}

inline LoweredText lower_spec(const std::string& path, std::string_view schedule = "") {
  Diagnostics diagnostics;
  const Program program = load_example(path, diagnostics);
  ResolveOptions options;
  options.require_bound = true;
  const std::optional<ir::Graph> graph = resolve(program, "", options, diagnostics);
  INFO(path << "\n" << diagnostics.print());
  REQUIRE(graph);
  return lower_graph(*graph, schedule);
}

// A kernel over ragged rows: `body` goes on behind the operands; the GEMM's columns are N.
inline std::string ragged_spec(const std::string& body, const std::string& dims = "E = 3, K = 64, N = 128",
                               const std::string& group = "group M by E") {
  return "kernel test {\n  dim " + dims + "\n  " + group + "\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n" + body +
         "\n}\n";
}

// … and one whose columns are the two halves of 2*I.
inline std::string halved_spec(const std::string& body, const std::string& dims = "E = 3, K = 64, I = 128",
                               const std::string& group = "group M by E") {
  return "kernel test {\n  dim " + dims + "\n  " + group + "\n  in x : bf16[M, K]\n  in w : bf16[E, 2*I, K]\n" + body +
         "\n}\n";
}

// The backward of a gated activation behind a gemm: its columns are I, those of the pre-activation and its gradient
// 2*I, dealt out by `deal` (", 8"). Quantised both ways, with the gradients of a probability and a bias.
inline std::string backward_spec(const std::string& deal = "", const std::string& dims = "E = 3, K = 64, I = 128") {
  return "kernel test {\n  dim " + dims +
         "\n  group M by E\n  group P = M align 128\n  in dy : bf16[M, K]\n  in w2 : bf16[E, K, I]\n"
         "  in pre : bf16[M, 2*I]\n  in prob : f32[M]\n  gate, up = split(pre" +
         deal +
         ")\n  act = gate * sigmoid(gate) * up * prob\n  dh, dprob = grad(act, gemm(dy, w2), pre, prob)\n"
         "  out q : mxfp8[M, 2*I] = dh\n  out t : mxfp8[2*I, P] = dh\n  out dprob : f32[M] = sum(dprob)\n"
         "  out dbias : f32[E, 2*I] = sum(dh)\n}\n";
}

}  // namespace epifuse::test
