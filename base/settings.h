// Settings from the environment, in one table: the only getenv of the program. `epifuse doctor` prints the table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/result.h"

namespace epifuse {

enum class LogLevel { error, warn, info, debug };

struct Settings {
  uint32_t user = ::geteuid();  // whose files are trusted
  std::string cache_directory;  // absolute; empty: no usable place, keep kernels in memory
  bool cache_wanted = true;     // false: EPIFUSE_CACHE_DIR=off, so an empty cache_directory is no reason for a warning
  std::vector<std::string> read_cache_directories;  // looked into before cache_directory, never written
  bool trust_shared = false;                        // of the latter: others may own and write them
  uint64_t cache_bytes = uint64_t{2} << 30;         // that cache_directory may take on the disk; 0: any
  std::vector<std::string> bundles;
  std::string nvrtc;  // path of a libnvrtc, or of the directory that holds one; empty: look for one
  std::string cuda_home;
  std::string tuning;  // a tuning file (docs/tuning.md); empty: none
  std::string record;  // a file that gets a line for each kernel that is asked for (docs/bundles.md); empty: none
  bool jit = true;     // off: a missing kernel is an error, never a compile
  LogLevel log = LogLevel::warn;

  // Where else a libnvrtc is looked for.
  std::string home;                                // empty: HOME is not set
  std::vector<std::string> program_directories;    // PATH: the python3 whose packages are searched
  std::vector<std::string> library_directories;    // LD_LIBRARY_PATH
  std::vector<std::string> toolchain_environment;  // "NAME=value" of variables that change what NVRTC generates
};

// "500M", "2G", "1048576" as bytes; "unlimited" is 0. Nothing for any other text.
std::optional<uint64_t> parse_bytes(std::string_view text);

struct SettingRow {
  std::string_view variable;
  std::string_view meaning;
  std::string value;  // as set, or the default
  bool is_set = false;
};

// The value of an environment variable, or nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const char* variable)>;
Environment process_environment();

// Reads the environment. A value that cannot be understood is an error that names the variable and what it may be. A
// variable that is set but empty counts as not set.
Result<Settings> read_settings(const Environment& environment = process_environment());
std::vector<SettingRow> settings_table(const Environment& environment = process_environment());

}  // namespace epifuse
