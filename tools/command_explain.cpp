// explain: what kernels cost at least, what fusing them saves, and why they get their plans.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/explanation.h"
#include "tools/sized_kernels.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Report explain(const CommandLine& line, Surroundings& world) {
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics);
  if (!program) return failure(program.error());
  if (diagnostics.has_errors()) return failure(std::move(diagnostics));
  const auto kernels = sized_kernels(*program, line, world, diagnostics);
  if (!kernels) return failure(kernels.error());
  if (!*kernels) return failure(std::move(diagnostics));

  Report report;
  Json list = Json::array();
  const std::unique_ptr<jit::Engine> engine = make_looking_engine(world);
  for (const SizedKernel& kernel : **kernels) {
    CompilerOptions options = kernel.compiler_options(line);
    std::optional<TakenPlan> taken = taken_plan(*engine, *program, kernel.name, options, diagnostics);
    if (!taken) return failure(std::move(diagnostics));
    Result<Explanation> explanation = explain_kernel(kernel, *std::move(taken));
    if (!explanation) return failure(explanation.error());
    options.all_plans = true;
    if (line.all_plans) explanation->listed = plan_kernel(*program, kernel.name, options, diagnostics)->lowered.plans;
    if (!report.text.empty()) report.text += '\n';
    report.text += explanation_text(*explanation);
    list.push_back(*read_json(explanation_json(*explanation)));
  }
  report.fields = Json{{"kernels", std::move(list)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace epifuse::tools
