// Tuning files (docs/tuning.md): for kernels with their dimensions, the plan that was fastest where somebody measured
// them. JSON, with a version of its own; `epifuse tune` writes it, an Engine reads it (EPIFUSE_TUNING).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace epifuse::jit {

struct TunedPlan {
  // Finds the plan: tuning_key of the canonical request. Should two requests ever have the same, the plan of one is
  // tried for the other, which costs time and nothing else.
  std::string key;
  std::string schedule;  // its name, the one that --schedule takes

  // For people.
  std::string kernel, target;
  std::map<std::string, int64_t> dims;
  std::optional<int64_t> expected_rows;  // of each group, where they were all alike
  std::optional<double> milliseconds;
  std::string gpu;
  std::optional<double> sm_clock_mhz;
  std::string commit;  // of the Epifuse that measured
};

// Of PlannedKernel::request.
std::string tuning_key(std::string_view request);

// Errors (user): no JSON, another version, an entry that lacks something or whose schedule is no name. What is there
// beside that is left alone.
Result<std::vector<TunedPlan>> parse_tuning_file(std::string_view text);

// Equal plans give equal bytes, in whatever order.
std::string print_tuning_file(std::vector<TunedPlan> plans);

// `plans` with those of `newer`, which replace what has their key.
std::vector<TunedPlan> merge_tuned_plans(std::vector<TunedPlan> plans, const std::vector<TunedPlan>& newer);

}  // namespace epifuse::jit
