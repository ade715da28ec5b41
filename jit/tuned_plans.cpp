#include "jit/tuned_plans.h"

#include <fmt/format.h>

#include "jit/tuning_file.h"

namespace epifuse::jit {

TunedPlans::TunedPlans(FileSystem& disk, std::string path, LogSink log)
    : disk_(disk), path_(std::move(path)), log_(std::move(log)) {}

std::string TunedPlans::find(const std::string& request) {
  if (path_.empty()) return "";
  std::call_once(once_, [this] { read(); });
  const auto found = schedules_.find(tuning_key(request));
  return found == schedules_.end() ? "" : found->second;
}

void TunedPlans::warn_of(const std::string& kernel, const std::string& schedule) const {
  if (log_)
    log_(LogLevel::warn, fmt::format("the tuning file {} has the plan '{}' for kernel '{}', which cannot run so any "
                                     "more; tune it again",
                                     path_, schedule, kernel));
}

void TunedPlans::read() {
  const Result<std::string> text = disk_.read(path_);
  const Result<std::vector<TunedPlan>> plans =
      text ? parse_tuning_file(*text) : Result<std::vector<TunedPlan>>(text.error());
  if (!plans) {
    if (log_)
      log_(LogLevel::warn,
           fmt::format("EPIFUSE_TUNING: the tuning file {} is not used: {}", path_, plans.error().message));
    return;
  }
  for (const TunedPlan& plan : *plans) schedules_[plan.key] = plan.schedule;
}

}  // namespace epifuse::jit
