// Kernels without gemm, from the spec to their results: generated kernels run on the host (host_kernels.h) and are
// judged by the interpreter, element by element.
#include <limits>
#include <set>

#include "base/numbers.h"
#include "compiler/codegen/emit_pointwise.h"
#include "compiler/interpreter/compare.h"
#include "compiler/lowering/unfuse.h"
#include "jit/inputs.h"
#include "tests/codegen/contracted_specs.h"
#include "tests/codegen/format_specs.h"
#include "tests/codegen/host_kernels.h"
#include "tests/codegen/pointwise_specs.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;

namespace {

// What outputs that are added to held before.
void fill_accumulated(const ir::Graph& graph, Buffers& outputs) {
  for (const ir::Output& output : graph.outputs) {
    if (!output.accumulate) continue;
    interpreter::HostTensor& tensor = outputs.at(output.tensor.name);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      interpreter::store_one(tensor, i, 0.25 * static_cast<double>(i % 37));
  }
}

struct Problem {
  ir::Graph graph;
  LoweredText lowered;
  Buffers inputs;
};

Problem make_problem(ir::Graph graph, jit::InputOptions options) {
  Problem problem;
  problem.graph = std::move(graph);
  problem.lowered = lower_graph(problem.graph);
  options.threads = 1;
  auto inputs = jit::make_inputs(problem.graph, options);
  if (!inputs) FAIL(inputs.error().message);
  problem.inputs = *std::move(inputs);
  return problem;
}

Problem make_problem(const PointwiseSpec& spec, uint64_t seed) {
  jit::InputOptions options;
  if (!spec.counts.empty()) options.counts = spec.counts;
  options.sizes = spec.sizes;
  options.slack_rows = spec.slack_rows;
  options.seed = seed;
  return make_problem(resolve_text(spec.text), options);
}

// The same problem with numbers that are none, or endless, or no more than a sign here and there.
Problem with_specials(Problem problem) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double specials[] = {nan, infinity, -infinity, -0.0, 1e30, -1e-30};
  // … and rows that are not there: the sizes of the specs' dimensions are among them.
  constexpr double rows[] = {-7, 25, 30, 50, 90, 1 << 20};
  for (const ir::Input& input : problem.graph.inputs) {
    interpreter::HostTensor& tensor = problem.inputs.at(input.tensor.name);
    if (is_float(tensor.storage)) continue;
    for (int64_t i = 1, n = 0; i < tensor.elements(); i += 3, ++n) interpreter::store_one(tensor, i, rows[n % 6]);
  }
  // A tensor's maximum is a number.
  std::set<std::string> maxima;
  for (const ir::Output& output : problem.graph.outputs) maxima.insert(output.tensor.type.amax_input);
  for (auto& [name, tensor] : problem.inputs) {
    if (!is_float(tensor.storage) || maxima.count(name) != 0) continue;
    for (int64_t i = 5, n = 0; i < tensor.elements(); i += 61, ++n) interpreter::store_one(tensor, i, specials[n % 6]);
  }
  return problem;
}

void run_and_judge(const HostKernels& kernels, size_t index, const Problem& problem, int multiprocessors,
                   Buffers* results = nullptr) {
  auto gemm = interpreter::cpu_gemm(1);
  const auto reference = interpreter::Reference::make(problem.graph, problem.inputs, {}, *gemm, 1);
  if (!reference) FAIL(reference.error().message);
  for (const uint8_t poison : {0xFF, 0xAA}) {
    Buffers outputs = *interpreter::make_outputs(reference->problem(), poison);
    fill_accumulated(problem.graph, outputs);
    const Buffers before = outputs;
    kernels.run(index, reference->problem(), problem.inputs, {}, outputs, multiprocessors);
    for (const ir::Output& output : problem.graph.outputs) {
      const auto verdict = interpreter::judge(*reference, output, outputs, {&before, poison});
      INFO(output.tensor.name);
      if (!verdict) FAIL(verdict.error().message);
      INFO(verdict->print());
      CHECK(verdict->ok);
    }
    if (results) *results = outputs;
  }
}

}  // namespace

namespace {

void run_and_judge_all(const std::vector<Problem>& problems) {
  HostKernels kernels;
  for (const Problem& problem : problems) kernels.add(problem.lowered.lowered.graph, problem.lowered.plan("pointwise"));
  kernels.compile();
  for (size_t i = 0; i < problems.size(); ++i) {
    INFO(ir::print(problems[i].graph));
    Buffers one, many;
    run_and_judge(kernels, i, problems[i], 1, &one);
    run_and_judge(kernels, i, problems[i], 132, &many);
    run_and_judge(kernels, i, with_specials(problems[i]), 2);
    // No order of a sum depends on the grid.
    for (const auto& [name, tensor] : one) {
      INFO(name);
      CHECK((tensor.bytes == many.at(name).bytes));
    }
  }
}

void run_and_judge_all(const std::vector<PointwiseSpec>& specs) {
  std::vector<Problem> problems;
  for (const PointwiseSpec& spec : specs) {
    INFO(spec.text);
    problems.push_back(make_problem(spec, problems.size() + 1));
  }
  run_and_judge_all(problems);
}

// The stages of outputs, which read what was contracted: they know of empty groups by their sizes alone.
void add_output_stages(std::vector<Problem>& problems, const std::string& text, const std::vector<int64_t>& counts) {
  INFO(text);
  for (lowering::UnfusedStage& stage : lowering::unfuse(simplified(resolve_text(text))).stages) {
    if (stage.output < 0) continue;
    stage.graph.name += std::to_string(problems.size());
    jit::InputOptions options;
    options.counts = counts;
    options.seed = problems.size() + 1;
    problems.push_back(make_problem(std::move(stage.graph), options));
  }
}

}  // namespace

TEST_CASE("generated kernels store what the interpreter says, and nothing else") {
  run_and_judge_all(pointwise_specs());
}

TEST_CASE("what was contracted over an empty group is stored as zero, or left alone") {
  std::vector<Problem> problems;
  for (const std::string& text : contracted_specs()) add_output_stages(problems, text, contracted_counts());
  add_output_stages(problems, contracted_across(), contracted_across_counts());
  run_and_judge_all(problems);
}

TEST_CASE("every scaled type, in every layout, with every option, and rotations") { run_and_judge_all(format_specs()); }
