// Tuning files (docs/tuning.md): for kernels with their dimensions, the plan that was fastest where somebody measured
// them. JSON, with a version of its own; `epifuse tune` writes it, an Engine reads it (EPIFUSE_TUNING).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
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

struct TuningFile {
  std::vector<TunedPlan> plans;  // one for each key: of several, the last that can be used
  // Sentences that name an entry. Of those that are left out: they lack something, or have it of another type, or their
  // schedule is no name. And of those whose place a later one with their key has taken.
  std::vector<std::string> unusable, replaced;
};

// Errors (user): no JSON, no tuning file, another version. What an entry has beside its fields is left alone.
Result<TuningFile> parse_tuning_file(std::string_view text);

// The same of a file.
Result<TuningFile> read_tuning_file(FileSystem& disk, const std::string& path);

// … where an entry that cannot be used is an error as well: for whoever would write the file anew, or builds with it.
Result<TuningFile> read_whole_tuning_file(FileSystem& disk, const std::string& path);

// Equal plans give equal bytes, in whatever order.
std::string print_tuning_file(std::vector<TunedPlan> plans);

// `plans` with those of `newer`, which replace what has their key.
std::vector<TunedPlan> merge_tuned_plans(std::vector<TunedPlan> plans, const std::vector<TunedPlan>& newer);

}  // namespace epifuse::jit
