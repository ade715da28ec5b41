// Reads entries and compares records.
#include "cache/nearest_entry.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace epifuse::cache {
namespace {

// By what its maker wrote about it for people.
bool is_of_kernel(std::string_view metadata, const std::string& subject) {
  const auto json = read_json(metadata);
  return json && json->is_object() && json->contains("kernel") && json->at("kernel") == subject;
}

}  // namespace

std::optional<NearestEntry> nearest_entry(const std::vector<CacheDirectory>& directories, const ArtifactKey& key,
                                          size_t most) {
  std::optional<NearestEntry> nearest;
  std::pair<bool, size_t> distance;  // another kernel; how many differences
  for (const CacheDirectory& directory : directories) {
    const Result<std::vector<std::string>> names = directory.names();
    if (!names) continue;
    for (const std::string& name : *names) {
      if (most == 0) return nearest;
      --most;
      const CacheDirectory::Lookup found = directory.read(name);
      if (!found) continue;
      std::vector<RecordDifference> differences = record_differences(found.entry.request, key.request());
      if (found.entry.toolchain != key.toolchain()) {
        differences.push_back({"toolchain", std::string(found.entry.toolchain), key.toolchain()});
      }
      const std::pair own(!is_of_kernel(found.entry.metadata, key.subject()), differences.size());
      if (nearest && own >= distance) continue;
      distance = own;
      nearest = NearestEntry{found.path, std::move(differences)};
    }
  }
  return nearest;
}

std::string parts_of(const std::vector<RecordDifference>& differences) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < differences.size() && i < most; ++i) text += (i == 0 ? "" : "; ") + differences[i].part;
  if (differences.size() > most) text += fmt::format("; and {} more", differences.size() - most);
  return text;
}

}  // namespace epifuse::cache
