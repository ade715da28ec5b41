// The order of the stages; each stage lives in its own folder.
#include "compiler/compiler.h"

#include <fmt/format.h>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/parser/ast.h"
#include "compiler/parser/lexer.h"
#include "compiler/semantics/resolve.h"
#include "compiler/toolchain/templates.h"

namespace epifuse {
namespace {

std::optional<ir::Graph> resolve_bound(const Program& program, std::string_view kernel, const CompilerOptions& options,
                                       Diagnostics& diagnostics) {
  ResolveOptions resolve_options;
  resolve_options.dims = options.dims;
  resolve_options.left_out = options.left_out;
  resolve_options.require_bound = true;
  return resolve(program, kernel, resolve_options, diagnostics);
}

std::string request_text(const ir::Graph& graph, const CompilerOptions& options) {
  std::string text = ir::print(graph) + "target " + options.target.name + "\n";
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) text += fmt::format("dim {} = {}\n", dim.name, *dim.value);
  for (const std::string& name : options.left_out) text += "without " + name + "\n";
  if (!options.schedule.empty()) text += "schedule " + options.schedule + "\n";
  return text;
}

}  // namespace

std::optional<PlannedKernel> plan_kernel(const Program& program, std::string_view kernel,
                                         const CompilerOptions& options, Diagnostics& diagnostics) {
  std::optional<ir::Graph> graph = resolve_bound(program, kernel, options, diagnostics);
  if (!graph) return std::nullopt;
  lowering::Lowered lowered = lowering::lower(*graph, options.target, options.schedule, diagnostics);
  if (lowered.plans.empty()) return std::nullopt;
  std::string request = request_text(*graph, options);
  return PlannedKernel{std::move(*graph), std::move(lowered), std::move(request)};
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

std::optional<std::string> emit_stage(Stage stage, const Program& program, std::string_view kernel,
                                      const CompilerOptions& options, Diagnostics& diagnostics) {
  if (stage == Stage::tokens) return print_tokens(*program.main().source, lex(program.main().source, diagnostics));
  if (stage == Stage::ast) return ast::print(program.main());
  if (stage == Stage::ir) {
    const std::optional<ir::Graph> graph = resolve_bound(program, kernel, options, diagnostics);
    if (!graph) return std::nullopt;
    std::string last = ir::print(*graph), text = "# resolved\n" + last;
    lowering::lower(*graph, options.target, options.schedule, diagnostics,
                    [&](std::string_view pass, const ir::Graph& after) {
                      const std::string now = ir::print(after);
                      if (now != last) text += fmt::format("\n# after {}\n{}", pass, now);
                      last = now;
                    });
    return text;
  }
  const std::optional<PlannedKernel> planned = plan_kernel(program, kernel, options, diagnostics);
  if (!planned) return std::nullopt;
  const lowering::KernelPlan& plan = planned->lowered.plans.front();
  return stage == Stage::plan ? lowering::print(planned->lowered.graph, plan)
                              : codegen::emit_kernel(planned->lowered.graph, plan);
}

}  // namespace epifuse
