// The options of every command and their values as they were written, and the parser that reads them off a command
// line. What the values mean is understood elsewhere (tools/understand_options.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace epifuse::tools {

struct Written {
  std::vector<std::string> specs, inputs;
  std::string spec, kernel, schedule, device = "auto", seed = "0", data = "normal";
  std::optional<std::string> target, emit, output, inputs_from, counts, slack, jobs, chain;
  std::optional<std::string> expected_rows, warm, rounds, tolerance, jit, record;
  std::optional<std::string> manifest, plans, from_record, symbol;
  std::vector<std::string> bundles, targets;
  std::string cache_key;
  std::optional<std::string> cache_size;
  std::vector<std::string> dims, params, without, taps;
  bool json = false, check_only = false, unfused = false, no_unfused = false;
  bool host = false, compare = false, no_full_clock = false, report = false, all_plans = false;
  bool dry_run = false, partial = false, prefer_first = false;
};

struct WrittenLine {
  std::string command;              // "cache list", as far as it was recognised
  std::optional<std::string> help;  // asked for: of the command that was named
  bool version = false;             // --version
  std::string problem;              // what is wrong with the line's form; empty: nothing
  Written written;
};
WrittenLine read_written(int argc, const char* const* argv);

}  // namespace epifuse::tools
