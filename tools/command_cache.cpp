// cache list, cache show, cache verify, cache path: what is in the cache.
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/artifact_record.h"
#include "base/kernel_image.h"
#include "cache/kernel_cache.h"
#include "tools/commands.h"

namespace epifuse::tools {
namespace {

using cache::ListedEntry;
using Miss = cache::CacheDirectory::Miss;
using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// What the maker of an entry wrote about it for people; of a damaged one nothing.
Json metadata_of(const ListedEntry& entry) {
  Json metadata = Json::parse(entry.found.entry.metadata, nullptr, false);
  return metadata.is_object() ? metadata : Json::object();
}

std::string word(const Json& metadata, const char* key) {
  return metadata.contains(key) && metadata[key].is_string() ? metadata[key].get<std::string>() : "-";
}

std::string name_of(const ListedEntry& entry) { return entry.found.path.substr(entry.found.path.rfind('/') + 1); }

// What is wrong with an entry, though it may be whole: its name is not that of its content, or no kernel is in it.
std::string problem_of(const ListedEntry& entry) {
  if (!entry.found) return entry.found.problem;
  const cache::EntryView& view = entry.found.entry;
  if (ArtifactKey(std::string(view.request), std::string(view.toolchain)).name() != name_of(entry)) {
    return "its name is not that of its request";
  }
  if (view.kind != cache::EntryKind::artifact) return "";
  const Result<KernelImage> image = KernelImage::from_bytes(view.payload);
  return image ? "" : image.error().message;
}

std::string_view state_of(const ListedEntry& entry, const std::string& problem) {
  return cache::miss_name(entry.found && !problem.empty() ? Miss::damaged : entry.found.miss);
}

Json row_of(const ListedEntry& entry) {
  const std::string problem = problem_of(entry);
  return {{"path", entry.found.path},
          {"key", name_of(entry)},
          {"state", state_of(entry, problem)},
          {"problem", problem},
          {"kind", entry.found.entry.kind == cache::EntryKind::redirect ? "redirect" : "artifact"},
          {"bytes", entry.found.status.size},
          {"used", entry.found.status.modified},
          {"toolchain", entry.found.entry.toolchain},
          {"metadata", metadata_of(entry)}};
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
  return fmt::format("{:%Y-%m-%d %H:%M}  {:>9}  {:13}  {:28}  {}\n", local, entry.found.status.size, what,
                     word(metadata, "kernel"), name_of(entry));
}

std::string place_of(const std::string& directory) {
  return directory.empty() ? "no directory: kernels are kept in memory only" : directory;
}

// Each entry whose key begins so.
Status visit(Surroundings& world, std::string_view key, const std::function<void(const ListedEntry&)>& visitor) {
  return cache::KernelCache(world.disk, cache::cache_options(world.settings, world.log)).visit(key, visitor);
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
  const std::string problem = problem_of(entry);
  Json request = Json::array();
  Report report;
  report.text = fmt::format("{}\n  {:16} {}{}\n", entry.found.path, "state", state_of(entry, problem),
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
  uint64_t bytes = 0;
  const Status visited = visit(world, "", [&](const ListedEntry& entry) {
    rows.push_back(row_of(entry));
    report.text += line_of(entry);
    bytes += entry.found.status.size;
  });
  if (!visited) return failure(visited.error());
  const std::string& directory = world.settings.cache_directory;
  report.text += fmt::format("{} entries, {} bytes, in {}\n", rows.size(), bytes, place_of(directory));
  report.fields = dump({{"directory", directory}, {"entries", std::move(rows)}, {"bytes", bytes}});
  return report;
}

Report cache_show(const CommandLine& line, Surroundings& world) {
  // One key may lie in several directories: the first is the one that is used.
  std::optional<ListedEntry> entry;
  std::string another;
  const Status visited = visit(world, line.cache_key, [&](const ListedEntry& seen) {
    if (!entry) {
      entry = seen;
    } else if (name_of(seen) != name_of(*entry)) {
      another = name_of(seen);
    }
  });
  if (!visited) return failure(visited.error());
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
  const Status visited = visit(world, "", [&](const ListedEntry& entry) {
    ++checked;
    if (entry.found.miss == Miss::other_version) ++of_other_versions;
    const std::string problem = problem_of(entry);
    if (problem.empty()) return;
    bad.push_back(row_of(entry));
    report.text += fmt::format("{}: {}\n", entry.found.path, problem);
  });
  if (!visited) return failure(visited.error());
  if (!bad.empty()) {
    report.code = ExitCode::wrong;
    report.error = fmt::format("{} of {} entries cannot be used", bad.size(), checked);
  }
  report.text += fmt::format("{} entries, {} bad, {} of another version of Epifuse, in {}\n", checked, bad.size(),
                             of_other_versions, place_of(world.settings.cache_directory));
  report.fields = dump({{"directory", world.settings.cache_directory},
                        {"checked", checked},
                        {"other_versions", of_other_versions},
                        {"bad", std::move(bad)}});
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
