// Pointwise kernels for the tests of gradients: evaluated by the interpreter in double, before any store rounds.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/differentiate.h"
#include "compiler/lowering/pipeline.h"
#include "tests/semantics/spec_support.h"
#include "tests/support/host_data.h"

namespace epifuse::test {

// What stands in the kernel, behind the library of activations.
inline ir::Graph resolve_with_library(const std::string& body) {
  Diagnostics diagnostics;
  const std::string text = "use \"activations.epi\"\nkernel test {\n" + body + "\n}\n";
  const Program program = load_text(text, diagnostics, {{"activations.epi", read_file("specs/lib/activations.epi")}});
  std::optional<ir::Graph> graph = resolve(program, "", {}, diagnostics);
  INFO(text);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return *std::move(graph);
}

// The graph with its gradients derived, sound, and the same behind all passes.
struct Derived {
  ir::Graph graph;
  ir::Graph simplified;

  explicit Derived(const std::string& body) : graph(lowering::differentiate(resolve_with_library(body))) {
    INFO(ir::print(graph));
    REQUIRE(ir::verify(graph) == std::vector<std::string>{});
    simplified = graph;
    for (const lowering::Pass& pass : lowering::passes()) {
      simplified = pass.run(std::move(simplified));
      INFO(pass.name << "\n" << ir::print(simplified));
      REQUIRE(ir::verify(simplified) == std::vector<std::string>{});
    }
  }
};

using Columns = std::map<std::string, std::vector<double>>;

// Each output by its name, in double and in the order of memory.
inline Columns evaluate(const ir::Graph& graph, const interpreter::Buffers& buffers,
                        const interpreter::Params& params = {}) {
  const auto gemm = interpreter::cpu_gemm(1);
  const auto reference = interpreter::Reference::make(graph, buffers, params, *gemm, 1);
  if (!reference) FAIL(reference.error().message);
  Columns result;
  for (const ir::Output& output : graph.outputs) {
    const auto walk = reference->walk(output, false);
    if (!walk) FAIL(walk.error().message);
    int64_t elements = 1;
    for (const int64_t extent : reference->problem().extents(output.tensor)) elements *= extent;
    std::vector<double>& values = result[output.tensor.name];
    values.resize(static_cast<size_t>(elements));
    for (int64_t i = 0; i < walk->tiles(); ++i) {
      const interpreter::Tile tile = walk->tile(i);
      for (int64_t r = 0; r < tile.rows; ++r)
        for (int64_t c = 0; c < tile.cols; ++c)
          values[static_cast<size_t>(walk->position(tile, r, c))] = tile.value[r * interpreter::Tile::pitch + c];
    }
  }
  return result;
}

// Inputs that are all f32[S].
inline Columns evaluate_columns(const ir::Graph& graph, const Columns& inputs, const interpreter::Params& params = {}) {
  interpreter::Buffers buffers;
  for (const auto& [name, values] : inputs)
    buffers[name] = tensor_of(Storage::f32, {static_cast<int64_t>(values.size())}, values);
  return evaluate(graph, buffers, params);
}

// A kernel of f32[S] inputs `names`: v is the expression, d the seed, and dNAME the gradient by each.
inline std::string gradient_kernel(const std::string& expression, const std::vector<std::string>& names) {
  std::string text = "dyn S\nin d : f32[S]\n", left, right, outputs = "out v : f32[S] = v\n";
  for (const std::string& name : names) {
    text += "in " + name + " : f32[S]\n";
    left += (left.empty() ? "d" : ", d") + name;
    right += ", " + name;
    outputs += "out d" + name + " : f32[S] = d" + name + "\n";
  }
  return text + "v = " + expression + "\n" + left + " = grad(v, d" + right + ")\n" + outputs;
}

// dv/d(input) by central differences, the error of the second order taken out. Steps are exact in f32 where inputs are
// multiples of 2^-12 below 2^8. `smooth` is false where two steps disagree: v has a kink there, or is not finite.
struct Differences {
  std::vector<double> slope, scale;  // scale: the magnitude of v around the point
  std::vector<bool> smooth;
};

inline Differences differences(const ir::Graph& graph, const Columns& inputs, const std::string& by,
                               const interpreter::Params& params = {}) {
  const double step = 0x1p-12;
  const auto shifted = [&](double by_step) {
    Columns moved = inputs;
    for (double& x : moved.at(by)) x += by_step;
    return evaluate_columns(graph, moved, params).at("v");
  };
  const std::vector<double> far_up = shifted(step), far_down = shifted(-step), up = shifted(step / 2),
                            down = shifted(-step / 2), here = shifted(0);
  Differences result;
  for (size_t i = 0; i < up.size(); ++i) {
    const double coarse = (far_up[i] - far_down[i]) / (2 * step), fine = (up[i] - down[i]) / step;
    const double forward = (far_up[i] - here[i]) / step, backward = (here[i] - far_down[i]) / step;
    result.slope.push_back((4 * fine - coarse) / 3);
    result.scale.push_back(std::fabs(here[i]) + std::fabs(fine));
    const double curvature = std::fabs(forward - backward);
    result.smooth.push_back(std::isfinite(coarse) && curvature <= 0x1p-5 * result.scale.back() &&
                            std::fabs(coarse - fine) <= 0x1p-18 * result.scale.back());
  }
  return result;
}

}  // namespace epifuse::test
