// cache list, cache path.
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/kernel_cache.h"
#include "tools/commands.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string_view state_name(cache::EntryState state) {
  switch (state) {
    case cache::EntryState::good: return "good";
    case cache::EntryState::other_version: return "other_version";
    case cache::EntryState::damaged: return "damaged";
  }
  return "damaged";
}

// What the maker of an entry wrote about it for people; of a damaged one nothing.
Json metadata_of(const cache::ListedEntry& entry) {
  Json metadata = Json::parse(entry.metadata, nullptr, false);
  return metadata.is_object() ? metadata : Json::object();
}

std::string word(const Json& metadata, const char* key) {
  return metadata.contains(key) && metadata[key].is_string() ? metadata[key].get<std::string>() : "-";
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Json row_of(const cache::ListedEntry& entry) {
  return {{"path", entry.path},
          {"key", name_of(entry.path)},
          {"state", state_name(entry.state)},
          {"kind", entry.kind == cache::EntryKind::redirect ? "redirect" : "artifact"},
          {"bytes", entry.size},
          {"modified", entry.modified},
          {"toolchain", entry.toolchain},
          {"metadata", metadata_of(entry)}};
}

std::string line_of(const cache::ListedEntry& entry) {
  const Json metadata = metadata_of(entry);
  const bool redirect = entry.kind == cache::EntryKind::redirect;
  const std::string what = entry.state != cache::EntryState::good ? std::string(state_name(entry.state))
                           : redirect                             ? "redirect"
                                                                  : word(metadata, "target");
  const std::time_t modified = entry.modified;
  std::tm local{};
  ::localtime_r(&modified, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}  {:>9}  {:13}  {:28}  {}\n", local, entry.size, what, word(metadata, "kernel"),
                     name_of(entry.path));
}

}  // namespace

Report cache_list(const CommandLine&, Surroundings& world) {
  cache::KernelCache cache(world.disk, cache::cache_options(world.settings, world.log));
  const Result<std::vector<cache::ListedEntry>> entries = cache.list();
  if (!entries) return failure(entries.error());
  Report report;
  Json rows = Json::array();
  uint64_t bytes = 0;
  for (const cache::ListedEntry& entry : *entries) {
    rows.push_back(row_of(entry));
    report.text += line_of(entry);
    bytes += entry.size;
  }
  const std::string& directory = world.settings.cache_directory;
  report.text += fmt::format("{} entries, {} bytes, in {}\n", entries->size(), bytes,
                             directory.empty() ? "no directory: kernels are kept in memory only" : directory);
  report.fields = dump({{"directory", directory}, {"entries", std::move(rows)}, {"bytes", bytes}});
  return report;
}

Report cache_path(const CommandLine&, Surroundings& world) {
  const std::string& directory = world.settings.cache_directory;
  if (directory.empty())
    return failure(ExitCode::machine, world.settings.cache_wanted
                                          ? "there is no cache directory: set EPIFUSE_CACHE_DIR or HOME"
                                          : "there is no cache directory: EPIFUSE_CACHE_DIR is off");
  Report report;
  report.text = directory + "\n";
  report.fields = dump({{"directory", directory}, {"read_directories", world.settings.read_cache_directories}});
  return report;
}

}  // namespace epifuse::tools
