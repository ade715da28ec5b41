// The order of the stages; each stage lives in its own folder.
#include "compiler/compiler.h"

#include <algorithm>
#include <fmt/format.h>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/lowering/differentiate.h"
#include "compiler/parser/ast.h"
#include "compiler/parser/lexer.h"
#include "compiler/request.h"
#include "compiler/semantics/resolve.h"
#include "compiler/toolchain/templates.h"

namespace epifuse {
namespace {

std::optional<ir::Graph> resolve_bound(const Program& program, std::string_view kernel, const CompilerOptions& options,
                                       Diagnostics& diagnostics) {
  ResolveOptions resolve_options;
  resolve_options.dims = options.dims;
  resolve_options.left_out = options.left_out;
  resolve_options.taps = options.taps;
  resolve_options.require_bound = true;
  return resolve(program, kernel, resolve_options, diagnostics);
}

bool has_gemm(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node& node) { return node.op == ir::Op::gemm; });
}

std::optional<PlannedKernel> plan_graph(ir::Graph graph, const CompilerOptions& options, Diagnostics& diagnostics) {
  std::string request = canonical_request(graph, options.target, options.left_out, options.schedule);
  std::string tuned = options.schedule.empty() && options.tuned ? options.tuned(request) : "";
  const lowering::PlanChoice choice{options.schedule, tuned, options.all_plans};
  lowering::Lowered lowered = lowering::lower(graph, options.target, choice, diagnostics);
  if (lowered.plans.empty()) return std::nullopt;
  PlannedKernel planned;
  planned.graph = lowering::differentiate(std::move(graph));
  planned.lowered = std::move(lowered);
  planned.request = std::move(request);
  planned.left_out = options.left_out;
  planned.asked_schedule = options.schedule;
  planned.tuned = std::move(tuned);
  return planned;
}

}  // namespace

std::optional<PlannedKernel> plan_kernel(const Program& program, std::string_view kernel,
                                         const CompilerOptions& options, Diagnostics& diagnostics) {
  std::optional<ir::Graph> graph = resolve_bound(program, kernel, options, diagnostics);
  if (!graph) return std::nullopt;
  std::optional<PlannedKernel> planned = plan_graph(*std::move(graph), options, diagnostics);
  if (planned) planned->spec = program.main().source->name;
  return planned;
}

std::optional<PlannedUnfused> plan_unfused(const Program& program, std::string_view kernel,
                                           const CompilerOptions& options, Diagnostics& diagnostics) {
  std::optional<ir::Graph> graph = resolve_bound(program, kernel, options, diagnostics);
  if (!graph) return std::nullopt;
  ir::Graph cut = *graph;
  for (const lowering::Pass& pass : lowering::passes()) cut = pass.run(std::move(cut));
  PlannedUnfused planned{lowering::differentiate(*std::move(graph)), lowering::unfuse(std::move(cut)), {}};
  CompilerOptions stage_options;
  stage_options.target = options.target;
  for (const lowering::UnfusedStage& stage : planned.unfused.stages) {
    Diagnostics own;
    // One element for each thread, in a family of kernels of its own: another way to the same numbers.
    stage_options.schedule = has_gemm(stage.graph) ? "" : "pointwise";
    std::optional<PlannedKernel> made = plan_graph(stage.graph, stage_options, own);
    for (const Diagnostic& said : own.all()) {
      const std::string message = fmt::format("the unfused stage '{}': {}", stage.graph.name, said.message);
      if (said.severity == Severity::error)
        diagnostics.error(said.where, message, said.hint);
      else
        diagnostics.warning(said.where, message, said.hint);
    }
    if (!made) continue;
    made->spec = program.main().source->name;
    planned.stages.push_back(*std::move(made));
  }
  if (planned.stages.size() != planned.unfused.stages.size()) return std::nullopt;
  return planned;
}

toolchain::CompileRequest compile_request(const PlannedKernel& kernel, const lowering::KernelPlan& plan) {
  toolchain::CompileRequest request;
  request.program_name = plan.kernel;
  request.source = codegen::emit_kernel(kernel.lowered.graph, plan);
  request.headers = toolchain::headers_included_by(request.source);
  request.arch = plan.target.name;
  return request;
}

std::optional<Stage> parse_stage(std::string_view name) {
  constexpr std::string_view names[] = {"tokens", "ast", "ir", "plan", "cuda"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == name) return static_cast<Stage>(i);
  return std::nullopt;
}

std::string plan_stage(Stage stage, const PlannedKernel& kernel, size_t plan) {
  const lowering::KernelPlan& chosen = kernel.lowered.plans.at(plan);
  return stage == Stage::plan ? lowering::print(kernel.lowered.graph, chosen)
                              : codegen::emit_kernel(kernel.lowered.graph, chosen);
}

std::optional<std::string> emit_stage(Stage stage, const Program& program, std::string_view kernel,
                                      const CompilerOptions& options, Diagnostics& diagnostics) {
  if (stage == Stage::tokens) return print_tokens(*program.main().source, lex(program.main().source, diagnostics));
  if (stage == Stage::ast) return ast::print(program.main());
  if (stage == Stage::ir) {
    const std::optional<ir::Graph> graph = resolve_bound(program, kernel, options, diagnostics);
    if (!graph) return std::nullopt;
    std::string last = ir::print(*graph), text = "# resolved\n" + last;
    lowering::lower(*graph, options.target, {.only = options.schedule}, diagnostics,
                    [&](std::string_view pass, const ir::Graph& after) {
                      const std::string now = ir::print(after);
                      if (now != last) text += fmt::format("\n# after {}\n{}", pass, now);
                      last = now;
                    });
    return text;
  }
  const std::optional<PlannedKernel> planned = plan_kernel(program, kernel, options, diagnostics);
  return planned ? std::optional(plan_stage(stage, *planned, 0)) : std::nullopt;
}

std::optional<std::string> emit_unfused(Stage stage, const Program& program, std::string_view kernel,
                                        const CompilerOptions& options, Diagnostics& diagnostics) {
  const std::optional<PlannedUnfused> planned = plan_unfused(program, kernel, options, diagnostics);
  if (!planned) return std::nullopt;
  std::string text;
  for (const PlannedKernel& made : planned->stages)
    text += fmt::format("{}{} stage {}\n{}", text.empty() ? "" : "\n", stage == Stage::cuda ? "//" : "#",
                        made.graph.name, stage == Stage::ir ? ir::print(made.graph) : plan_stage(stage, made, 0));
  return text;
}

}  // namespace epifuse
