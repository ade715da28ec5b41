// The table of environment variables, and the reading of each.
#include "base/settings.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <limits>

namespace epifuse {
namespace {

struct Variable {
  const char* name;
  std::string_view meaning;
};

constexpr Variable variables[] = {
    {"EPIFUSE_CACHE_DIR", "directory of the kernel cache; off: keep kernels in memory only"},
    {"EPIFUSE_CACHE_READ", "more cache directories, read but never written, separated by ':'"},
    {"EPIFUSE_CACHE_TRUST", "own, or shared: directories of EPIFUSE_CACHE_READ may be written by others"},
    {"EPIFUSE_CACHE_SIZE", "bytes that the kernel cache may take on the disk, as 500M or 2G; unlimited: any"},
    {"EPIFUSE_BUNDLES", "bundles of prebuilt kernels, separated by ':'"},
    {"EPIFUSE_NVRTC", "the libnvrtc to compile with: a file, or the directory that holds it"},
    {"EPIFUSE_JIT", "on, or off: a missing kernel is an error and never a compile"},
    {"EPIFUSE_RECORD",
     "a file that gets a line for each kernel that is asked for, for `epifuse prebuild --from-record`"},
    {"EPIFUSE_TUNING", "a tuning file: the plans that `epifuse tune` found fastest"},
    {"EPIFUSE_LOG", "error, warn, info or debug"},
    {"CUDA_HOME", "a CUDA toolkit, searched for libnvrtc"},
    {"XDG_CACHE_HOME", "the kernel cache is its folder epifuse, unless EPIFUSE_CACHE_DIR is set"},
    {"HOME", "the kernel cache is its folder .cache/epifuse, unless one of the above is set"},
    {"PATH", "the Python packages of its python3 are searched for libnvrtc"},
    {"LD_LIBRARY_PATH", "searched for libnvrtc"},
};

// Variables that NVRTC reads by itself and that can change the code it generates. They are reported, and not removed:
// changing the environment of a running process races with every getenv in it.
constexpr const char* toolchain_variables[] = {
    "NVRTC_APPEND_FLAGS",     "NVRTC_PREPEND_FLAGS", "NVVM_IR_VER_CHK",
    "LLVM_OVERRIDE_PRODUCER", "NV_NVVM_VERSION",     "EDG_BASE",
};

std::string value_of(const Environment& environment, const char* variable) {
  return environment(variable).value_or("");
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t colon = text.find(':');
    const std::string_view part = text.substr(0, colon);
    if (!part.empty()) parts.emplace_back(part);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  return parts;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  std::error_code failed;
  const std::filesystem::path made = std::filesystem::absolute(path, failed);
  return failed ? path : made.string();
}

std::vector<std::string> absolute_list(std::string_view text) {
  std::vector<std::string> paths = split_list(text);
  for (std::string& path : paths) path = absolute(path);
  return paths;
}

bool is_absolute(const std::string& path) { return !path.empty() && path.front() == '/'; }

// A relative XDG_CACHE_HOME is invalid by its specification and ignored; so is a relative HOME.
std::string default_cache_directory(const Environment& environment) {
  if (const std::string xdg = value_of(environment, "XDG_CACHE_HOME"); is_absolute(xdg)) return xdg + "/epifuse";
  if (const std::string home = value_of(environment, "HOME"); is_absolute(home)) return home + "/.cache/epifuse";
  return "";
}

Error bad_value(const char* variable, const std::string& value, std::string_view allowed) {
  return user_error(fmt::format("{} is '{}'; it may be {}", variable, value, allowed));
}

}  // namespace

Environment process_environment() {
  return [](const char* variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  if (text == "unlimited") return 0;
  constexpr std::string_view suffixes = "KMGT";
  const size_t suffix = text.empty() ? std::string_view::npos : suffixes.find(text.back());
  const int shift = suffix == std::string_view::npos ? 0 : 10 * static_cast<int>(suffix + 1);
  if (shift != 0) text.remove_suffix(1);
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || number == 0) return std::nullopt;
  if (number > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

Result<Settings> read_settings(const Environment& environment) {
  Settings settings;

  const std::string cache = value_of(environment, "EPIFUSE_CACHE_DIR");
  settings.cache_wanted = cache != "off";
  if (settings.cache_wanted) {
    settings.cache_directory = cache.empty() ? default_cache_directory(environment) : absolute(cache);
  }
  settings.read_cache_directories = absolute_list(value_of(environment, "EPIFUSE_CACHE_READ"));
  const std::string trust = value_of(environment, "EPIFUSE_CACHE_TRUST");
  if (!trust.empty() && trust != "own" && trust != "shared") {
    return bad_value("EPIFUSE_CACHE_TRUST", trust, "'own' or 'shared'");
  }
  settings.trust_shared = trust == "shared";
  if (const std::string size = value_of(environment, "EPIFUSE_CACHE_SIZE"); !size.empty()) {
    const std::optional<uint64_t> bytes = parse_bytes(size);
    if (!bytes) return bad_value("EPIFUSE_CACHE_SIZE", size, "a number of bytes, as 500M or 2G, or 'unlimited'");
    settings.cache_bytes = *bytes;
  }
  settings.bundles = absolute_list(value_of(environment, "EPIFUSE_BUNDLES"));
  settings.nvrtc = absolute(value_of(environment, "EPIFUSE_NVRTC"));
  settings.cuda_home = absolute(value_of(environment, "CUDA_HOME"));
  settings.tuning = absolute(value_of(environment, "EPIFUSE_TUNING"));
  settings.record = absolute(value_of(environment, "EPIFUSE_RECORD"));

  const std::string jit = value_of(environment, "EPIFUSE_JIT");
  if (!jit.empty() && jit != "on" && jit != "off") return bad_value("EPIFUSE_JIT", jit, "'on' or 'off'");
  settings.jit = jit != "off";

  const std::string log = value_of(environment, "EPIFUSE_LOG");
  if (log == "error") {
    settings.log = LogLevel::error;
  } else if (log == "info") {
    settings.log = LogLevel::info;
  } else if (log == "debug") {
    settings.log = LogLevel::debug;
  } else if (!log.empty() && log != "warn") {
    return bad_value("EPIFUSE_LOG", log, "'error', 'warn', 'info' or 'debug'");
  }

  settings.home = value_of(environment, "HOME");
  settings.program_directories = split_list(value_of(environment, "PATH"));
  settings.library_directories = split_list(value_of(environment, "LD_LIBRARY_PATH"));
  for (const char* variable : toolchain_variables) {
    if (const std::string value = value_of(environment, variable); !value.empty()) {
      settings.toolchain_environment.push_back(fmt::format("{}={}", variable, value));
    }
  }
  return settings;
}

std::vector<SettingRow> settings_table(const Environment& environment) {
  std::vector<SettingRow> rows;
  for (const Variable& variable : variables) {
    SettingRow row{variable.name, variable.meaning, value_of(environment, variable.name), false};
    row.is_set = !row.value.empty();
    if (!row.is_set) {
      const std::string_view name = variable.name;
      if (name == "EPIFUSE_CACHE_DIR") row.value = default_cache_directory(environment);
      if (name == "EPIFUSE_CACHE_TRUST") row.value = "own";
      if (name == "EPIFUSE_CACHE_SIZE") row.value = "2G";
      if (name == "EPIFUSE_JIT") row.value = "on";
      if (name == "EPIFUSE_LOG") row.value = "warn";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace epifuse
