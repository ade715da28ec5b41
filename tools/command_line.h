// The command line as plain values: everything that can be wrong with its form is found here (exit code 2), before any
// command runs. What a value means for a spec is the commands' business.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/target.h"
#include "jit/inputs.h"

namespace epifuse::tools {

enum class Emit { tokens, ast, ir, plan, cuda, ptx, cubin, sass };
enum class DeviceChoice { automatic, cpu, gpu };

struct CommandLine {
  std::string command;             // "check", "cache list"
  std::vector<std::string> specs;  // exactly one but for check and fmt
  std::string kernel;              // empty: the only one of the file
  std::map<std::string, int64_t> dims;
  std::set<std::string> left_out;
  std::set<std::string> taps;  // values that get an f32 output of their own
  std::map<std::string, double> params;
  std::optional<Target> target;  // empty: the GPU's where one is used, else the default
  std::string schedule;
  bool unfused = false;     // compile, run: each operation as a kernel of its own
  bool no_unfused = false;  // verify: the fused kernel alone
  std::optional<Emit> emit;
  std::string output;              // -o
  bool check_only = false;         // fmt, prebuild
  std::vector<std::string> chain;  // grad: kernels of the file, in the order they run

  // run, verify
  DeviceChoice device = DeviceChoice::automatic;
  std::vector<std::pair<std::string, std::string>> input_files;  // NAME=FILE.npy, in the order given
  std::string inputs;                                            // directory, or .npz
  std::optional<std::vector<int64_t>> counts;                    // rows of each group
  std::optional<int64_t> expected_rows;  // bench, explain, tune: of each group, and the size of each `dyn`
  uint64_t seed = 0;                     // of the inputs that are not given
  jit::DataMode data = jit::DataMode::normal;
  int64_t slack = 0;  // rows of capacity behind the last group

  // bench
  double warm_seconds = 3;
  int rounds = 16;
  bool host = false;             // what launching costs the host
  bool compare = false;          // the specs are two JSON files of earlier runs
  double tolerance_percent = 3;  // compare: how much slower is no difference yet
  bool no_full_clock = false;
  bool report = false;     // tune: nothing is stored
  bool all_plans = false;  // explain: those that tune chooses from

  // compile, run, verify, bench
  std::vector<std::string> bundles;  // before those of the environment
  std::optional<bool> jit;           // off: a missing kernel is an error
  std::string record;                // a file for the requests of this run

  // prebuild
  std::vector<std::map<std::string, int64_t>> dim_sets;  // each --dims by itself
  std::vector<Target> targets;
  std::string manifest, plans, from_record;
  bool dry_run = false;
  bool partial = false;  // the bundle is written even when a kernel could not be built

  // bundle; `specs` are the bundles
  bool prefer_first = false;  // merge: of two answers to one request
  std::string symbol;         // embed

  std::string cache_key;                // cache show: how the entry's name begins
  std::optional<uint64_t> cache_bytes;  // cache prune: 0 is any number

  int jobs = 0;  // threads of the interpreter, processes of prebuild; 0: one for each core
  bool json = false;
};

struct ShowText {  // --help, --version: nothing to run
  std::string text;
  bool version = false;
};

struct UsageError {
  std::string command;  // as far as it was understood
  std::string message;
  bool json = false;
};

std::variant<CommandLine, ShowText, UsageError> parse_command_line(int argc, const char* const* argv);

}  // namespace epifuse::tools
