#include "jit/tuned_plans.h"

#include <fmt/format.h>

#include "jit/tuning_file.h"

namespace epifuse::jit {

TunedPlans::TunedPlans(FileSystem& disk, std::string path, LogSink log)
    : disk_(disk), path_(std::move(path)), log_(std::move(log)) {}

std::optional<PlannedKernel> TunedPlans::plan(const Program& program, std::string_view kernel,
                                              const CompilerOptions& options, Diagnostics& diagnostics) {
  if (path_.empty() || options.tuned || !options.schedule.empty())
    return plan_kernel(program, kernel, options, diagnostics);
  CompilerOptions own = options;
  own.tuned = [this](const std::string& request) { return find(request); };
  std::optional<PlannedKernel> planned = plan_kernel(program, kernel, own, diagnostics);
  if (planned && !planned->tuned.empty() && !planned->lowered.has_preferred && log_) {
    const std::string& why = planned->lowered.why_not_preferred;
    log_(LogLevel::warn,
         fmt::format("the tuning file {} has the plan '{}' for kernel '{}', which cannot run so{}; tune "
                     "it again",
                     path_, planned->tuned, planned->graph.name, why.empty() ? "" : ": " + why));
  }
  return planned;
}

std::string TunedPlans::find(const std::string& request) {
  std::call_once(once_, [this] { read(); });
  const auto found = schedules_.find(tuning_key(request));
  return found == schedules_.end() ? "" : found->second;
}

void TunedPlans::read() {
  const auto warn = [&](const std::string& what) {
    if (log_) log_(LogLevel::warn, what);
  };
  const Result<TuningFile> file = read_tuning_file(disk_, path_);
  if (!file) return warn(fmt::format("EPIFUSE_TUNING: the tuning file is not used: {}", file.error().message));
  for (const auto& list : {file->unusable, file->replaced})
    for (const std::string& what : list) warn(fmt::format("the tuning file {}: {}", path_, what));
  for (const TunedPlan& plan : file->plans) schedules_[plan.key] = plan.schedule;
}

}  // namespace epifuse::jit
