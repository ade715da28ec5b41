// cache list, cache show, cache verify, cache path: what is in the cache.
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/artifact_record.h"
#include "base/json.h"
#include "cache/kernel_cache.h"
#include "tools/commands.h"
#include "tools/count_text.h"
#include "tools/look_into_cache.h"

namespace epifuse::tools {
namespace {

using cache::ListedEntry;
using Miss = cache::CacheDirectory::Miss;
using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// What the maker of an entry wrote about it for people; of a damaged one nothing.
Json metadata_of(const ListedEntry& entry) {
  Result<Json> metadata = read_json(entry.found.entry.metadata);
  return metadata && metadata->is_object() ? *std::move(metadata) : Json::object();
}

std::string word(const Json& metadata, const char* key) {
  return metadata.contains(key) && metadata[key].is_string() ? metadata[key].get<std::string>() : "-";
}

std::string name_of(const ListedEntry& entry) { return entry.found.path.substr(entry.found.path.rfind('/') + 1); }

Json row_of(const ListedEntry& entry) {
  return {{"path", entry.found.path},
          {"key", name_of(entry)},
          {"state", cache::miss_name(entry.found.miss)},
          {"problem", entry.found.problem},
          {"own", entry.writable},
          {"kind", entry.found.entry.kind == cache::EntryKind::redirect ? "redirect" : "artifact"},
          {"bytes", entry.found.status.size},
          {"used", entry.found.status.modified},
          {"toolchain", entry.found.entry.toolchain},
          {"metadata", metadata_of(entry)}};
}

// "E=8,K=7168", of the compile that made the entry: others may have found it since.
std::string dims_of(const Json& metadata) {
  std::string text;
  if (metadata.contains("dims") && metadata["dims"].is_object())
    for (const auto& [name, value] : metadata["dims"].items())
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value.dump(-1, ' ', true));
  return text.empty() ? "-" : text;
}

std::string line_of(const ListedEntry& entry) {
  const Json metadata = metadata_of(entry);
  const bool redirect = entry.found.entry.kind == cache::EntryKind::redirect;
  const std::string what = !entry.found ? std::string(cache::miss_name(entry.found.miss))
                           : redirect   ? "redirect"
                                        : word(metadata, "target");
  const std::time_t used = entry.found.status.modified;
  std::tm local{};
  ::localtime_r(&used, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}  {:>9}  {:13}  {:28}  {}  {}\n", local, entry.found.status.size, what,
                     word(metadata, "kernel"), name_of(entry), dims_of(metadata));
}

// What lies in one directory.
struct Sum {
  std::string path;
  bool own = false;
  uint64_t entries = 0, bytes = 0;
};

// Each entry whose key begins so, and the sum of each directory, the own one last. An error: the own one is refused.
Result<std::vector<Sum>> visit(Surroundings& world, std::string_view key,
                               const std::function<void(const ListedEntry&)>& visitor) {
  cache::KernelCache cache(world.disk, looking_options(world));
  if (Status used = cache.own_directory(); !used) return used.error();
  std::vector<Sum> sums;
  for (const cache::KernelCache::Place& place : cache.places()) sums.push_back({place.path, place.writable});
  const Status visited = cache.visit(key, [&](const ListedEntry& entry) {
    for (Sum& sum : sums) {
      if (sum.own != entry.writable || entry.found.path != sum.path + "/" + name_of(entry)) continue;
      ++sum.entries;
      sum.bytes += entry.found.status.size;
      break;
    }
    visitor(entry);
  });
  if (!visited) return visited.error();
  if (sums.empty() || !sums.back().own) sums.push_back({world.settings.cache_directory, true});
  return sums;
}

Json sums_json(const std::vector<Sum>& sums) {
  Json rows = Json::array();
  for (const Sum& sum : sums)
    rows.push_back({{"directory", sum.path}, {"own", sum.own}, {"count", sum.entries}, {"bytes", sum.bytes}});
  return rows;
}

std::string sums_text(const std::vector<Sum>& sums, const Settings& settings) {
  std::string text;
  for (const Sum& sum : sums)
    text += sum.own
                ? fmt::format("{}, {}, in {}\n", entries_text(sum.entries), bytes_text(sum.bytes), own_place(settings))
                : fmt::format("{}, {}, in {}, which is only read\n", entries_text(sum.entries), bytes_text(sum.bytes),
                              sum.path);
  return text;
}

// A part of a request, of which a person wants to see the beginning.
std::string beginning(std::string_view value) {
  constexpr size_t most = 100;
  const std::string_view line = value.substr(0, value.find('\n'));
  if (line.size() == value.size() && line.size() <= most) return std::string(line);
  return fmt::format("{} … ({} bytes)", line.substr(0, most), value.size());
}

Report describe(const ListedEntry& entry) {
  Json fields = row_of(entry);
  const Json metadata = metadata_of(entry);
  const std::string& problem = entry.found.problem;
  Json request = Json::array();
  Report report;
  report.text = fmt::format("{}\n  {:16} {}{}\n", entry.found.path, "state", cache::miss_name(entry.found.miss),
                            problem.empty() ? "" : ", " + problem);
  if (entry.found) {
    report.text += fmt::format("  {:16} {}\n", "toolchain", entry.found.entry.toolchain);
    for (const auto& [name, value] : metadata.items()) report.text += fmt::format("  {:16} {}\n", name, value.dump());
    report.text += "  made from\n";
    const auto fields_of_request = parse_record(entry.found.entry.request);
    for (const RecordField& field : fields_of_request.value_or(std::vector<RecordField>())) {
      request.push_back({{"part", field.name}, {"value", field.value}});
      report.text += fmt::format("    {:8} {}\n", field.name, beginning(field.value));
    }
  }
  fields["request"] = std::move(request);
  report.fields = dump(fields);
  return report;
}

}  // namespace

Report cache_list(const CommandLine&, Surroundings& world) {
  Report report;
  Json rows = Json::array();
  const auto sums = visit(world, "", [&](const ListedEntry& entry) {
    rows.push_back(row_of(entry));
    report.text += line_of(entry);
  });
  if (!sums) return failure(sums.error());
  report.text += sums_text(*sums, world.settings);
  report.fields = dump({{"directory", world.settings.cache_directory},
                        {"entries", std::move(rows)},
                        {"bytes", sums->back().bytes},
                        {"directories", sums_json(*sums)}});
  return report;
}

Report cache_show(const CommandLine& line, Surroundings& world) {
  // As `cache list` names it, or by its file. One key may lie in several directories: the first is the one that is
  // used.
  const size_t slash = line.cache_key.rfind('/');
  const std::string key = line.cache_key.substr(slash + 1);
  std::error_code ignored;
  std::optional<ListedEntry> entry;
  std::string another;
  const auto sums = visit(world, key, [&](const ListedEntry& seen) {
    if (slash != std::string::npos && !std::filesystem::equivalent(seen.found.path, line.cache_key, ignored)) return;
    if (!entry) {
      entry = seen;
    } else if (name_of(seen) != name_of(*entry)) {
      another = name_of(seen);
    }
  });
  if (!sums) return failure(sums.error());
  if (!entry && slash != std::string::npos)
    return failure(user_error(
        fmt::format("'{}' is no entry of the cache's directories; `epifuse cache list` names all", line.cache_key)));
  if (!entry) {
    return failure(user_error(
        fmt::format("no entry of the cache begins with '{}'; `epifuse cache list` names all", line.cache_key)));
  }
  if (!another.empty()) {
    return failure(user_error(
        fmt::format("several entries begin with '{}': {} and {}", line.cache_key, name_of(*entry), another)));
  }
  return describe(*entry);
}

Report cache_verify(const CommandLine&, Surroundings& world) {
  Report report;
  Json bad = Json::array();
  size_t checked = 0, of_other_versions = 0;
  const auto sums = visit(world, "", [&](const ListedEntry& entry) {
    ++checked;
    if (entry.found.miss == Miss::other_version) ++of_other_versions;
    if (entry.found.problem.empty()) return;
    bad.push_back(row_of(entry));
    report.text += fmt::format("{}: {}\n", entry.found.path, entry.found.problem);
  });
  if (!sums) return failure(sums.error());
  if (!bad.empty()) {
    report.code = ExitCode::wrong;
    report.error = fmt::format(
        "{} of {} cannot be used; `epifuse cache prune` removes those of the own directory, and a "
        "compile that comes upon one makes it again",
        bad.size(), entries_text(checked));
  }
  report.text += fmt::format("{}: {} bad, {} of another version of Epifuse\n{}", entries_text(checked), bad.size(),
                             of_other_versions, sums_text(*sums, world.settings));
  report.fields = dump({{"directory", world.settings.cache_directory},
                        {"checked", checked},
                        {"other_versions", of_other_versions},
                        {"bad", std::move(bad)},
                        {"directories", sums_json(*sums)}});
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
  for (const std::string& path : world.settings.read_cache_directories)
    report.text += fmt::format("{} (EPIFUSE_CACHE_READ: looked into before, and only read)\n", path);
  report.fields = dump({{"directory", directory}, {"read_directories", world.settings.read_cache_directories}});
  return report;
}

}  // namespace epifuse::tools
