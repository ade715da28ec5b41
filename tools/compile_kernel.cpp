#include "tools/compile_kernel.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "compiler/toolchain/nvrtc_toolchain.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

// The last three are parts of the toolchain's time.
Json phases_json(const jit::CompileTimes& times) {
  return {{"plan", times.plan},           {"emit", times.emit},        {"look_up", times.look_up},
          {"toolchain", times.toolchain}, {"cuda", times.phases.cuda}, {"nvvm", times.phases.nvvm},
          {"ptxas", times.phases.ptxas}};
}

}  // namespace

CompilerOptions compiler_options(const CommandLine& line) {
  CompilerOptions options;
  options.dims = line.dims;
  options.left_out = line.left_out;
  options.taps = line.taps;
  options.target = line.target.value_or(Target{});
  options.schedule = line.schedule;
  return options;
}

std::unique_ptr<jit::Engine> make_engine(const Surroundings& world, bool use_cache) {
  jit::EngineOptions options{
      .settings = world.settings, .log = world.log, .read_cache = use_cache, .write_cache = use_cache};
  Settings of_toolchain = world.settings;
  if (!use_cache) of_toolchain.cache_directory.clear();
  auto nvrtc = std::make_shared<toolchain::NvrtcToolchain>(world.disk, std::move(of_toolchain));
  return std::make_unique<jit::Engine>(std::move(options), std::move(nvrtc), world.disk);
}

std::unique_ptr<jit::Engine> make_looking_engine(const Surroundings& world) {
  // What it says of kernels that it finds is about a compile, and there is none.
  const LogSink warnings = [log = world.log](LogLevel level, std::string_view text) {
    if (log && level <= LogLevel::warn) log(level, text);
  };
  return make_engine({world.settings, "", world.disk, warnings}, true);
}

std::optional<TakenPlan> taken_plan(jit::Engine& engine, const Program& program, const std::string& kernel,
                                    const CompilerOptions& options, Diagnostics& diagnostics) {
  std::optional<PlannedKernel> planned = engine.plan(program, kernel, options, diagnostics);
  if (!planned) return std::nullopt;
  const jit::CompiledKernelPtr found = engine.find(*planned);
  TakenPlan taken;
  const size_t choices = planned->lowered.plans.size();
  if (found && lowering::schedule_name(found->planned.lowered.plans[found->plan].schedule) == found->schedule())
    taken.compiled = found;
  else if (found)
    taken.may_be_left = fmt::format(
        "the bundle {} has the kernel with the plan '{}', which this Epifuse does not make, "
        "and which is taken",
        found->bundle, found->schedule());
  else if (choices > 1 && planned->asked_schedule.empty())
    taken.may_be_left = "if the plan spills registers or waits for each wgmma when it is compiled, another is taken";

  if (!planned->asked_schedule.empty())
    taken.why = "asked for";
  else if (taken.compiled && taken.compiled->from == jit::From::bundle)
    taken.why = fmt::format("from the bundle {}", taken.compiled->bundle);
  else if (planned->is_tuned(taken.index()))
    taken.why = "from the tuning file";
  else if (taken.compiled && !taken.compiled->refused.empty())
    taken.why = "better ones were refused";
  else
    taken.why = choices == 1 ? "the only one" : fmt::format("the first of {} by the cost model", choices);
  taken.planned = *std::move(planned);
  return taken;
}

std::vector<std::string> unsaid_warnings(const jit::CompiledKernel& kernel, const Settings& settings) {
  std::vector<std::string> warnings = kernel.image.warnings;
  if (settings.log >= LogLevel::warn) std::erase(warnings, kernel.said);
  return warnings;
}

std::string kernel_json(const jit::CompiledKernel& kernel) {
  Json refused = Json::array();
  for (const jit::RefusedPlan& plan : kernel.refused)
    refused.push_back({{"plan", plan.schedule}, {"reason", plan.reason}});
  const KernelImage& image = kernel.image;
  const IntExpr workspace = kernel.workspace_bytes();
  const Json json = {{"kernel", image.recipe.kernel},
                     {"target", image.recipe.target},
                     {"key", kernel.key},
                     {"compiled", kernel.from == jit::From::toolchain},
                     {"from", jit::from_name(kernel.from)},
                     {"bundle", kernel.bundle.empty() ? Json() : Json(kernel.bundle)},
                     {"ms", kernel.milliseconds},
                     {"phases_ms", phases_json(kernel.times)},
                     {"plan", kernel.schedule()},
                     {"tuned", kernel.planned.is_tuned(kernel.plan)},
                     {"refused", std::move(refused)},
                     {"registers", image.registers},
                     {"spill_bytes", image.spill_bytes},
                     {"wgmma_serialized", image.wgmma_serialized},
                     {"cubin_bytes", image.cubin.size()},
                     {"workspace_bytes", workspace.constant() ? Json(*workspace.constant()) : Json(workspace.text())},
                     {"warnings", image.warnings}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string unfused_json(const jit::CompiledUnfused& kernel) {
  using Json = nlohmann::ordered_json;
  bool compiled = false;
  Json stages = Json::array();
  for (const jit::CompiledKernelPtr& stage : kernel.stages) {
    compiled = compiled || stage->from == jit::From::toolchain;
    stages.push_back(*read_json(kernel_json(*stage)));
  }
  const Json json = {{"kernel", kernel.recipe.kernel},
                     {"target", kernel.recipe.target},
                     {"compiled", compiled},
                     {"ms", kernel.milliseconds},
                     {"unfused", true},
                     {"stages", std::move(stages)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace epifuse::tools
