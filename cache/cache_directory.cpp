// Trust in a directory, and the way from a key to the file of its entry.
#include "cache/cache_directory.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace epifuse::cache {
namespace {

// A trailing slash would make lstat follow the link that open() is to refuse.
std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

constexpr size_t entry_name_length = 65;

// 32 hex digits, a point, 32 hex digits: locks, temporaries and *.bad files are not entries.
bool is_entry_name(std::string_view name) {
  if (name.size() != entry_name_length || name[32] != '.') return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (i != 32 && !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

CacheDirectory::Stored stored(const EntryView& entry) {
  return {entry.kind, std::string(entry.toolchain), std::string(entry.metadata), std::string(entry.payload)};
}

}  // namespace

CacheDirectory::CacheDirectory(FileSystem& disk, std::string path, Use use)
    : disk_(disk), path_(without_trailing_slashes(std::move(path))), use_(use) {}

Status CacheDirectory::open() {
  FileStatus status = disk_.status(path_);
  if (!status.exists && writable()) {
    if (Status made = disk_.make_directories(path_); !made) return made;
    status = disk_.status(path_);
  }
  if (!status.exists) return environment_error(fmt::format("{} does not exist", path_));
  if (status.is_symlink) return environment_error(fmt::format("{} is a symbolic link", path_));
  if (!status.is_directory) return environment_error(fmt::format("{} is not a directory", path_));
  const uint32_t user = ::geteuid();
  if (status.owner != user && (writable() || status.owner != 0)) {
    return environment_error(fmt::format("{} belongs to user {} and not to this user ({})", path_, status.owner, user));
  }
  if (status.mode & 022) {
    return environment_error(fmt::format("others can write to {} (mode {:03o})", path_, status.mode & 0777));
  }
  return {};
}

std::string CacheDirectory::entry_path(const ArtifactKey& key) const { return path_ + "/" + key.name(); }
std::string CacheDirectory::lock_path(const ArtifactKey& key) const { return entry_path(key) + ".lock"; }

CacheDirectory::Lookup CacheDirectory::look_up(const std::string& name, const ArtifactKey& key,
                                               bool same_toolchain) const {
  Lookup lookup;
  lookup.path = path_ + "/" + name;
  const FileStatus status = disk_.status(lookup.path);
  if (!status.exists) return lookup;
  if (status.is_symlink) {
    lookup.problem = "it is a symbolic link";
    return lookup;
  }
  Result<std::string> bytes = disk_.read(lookup.path);
  if (!bytes) {
    // Another process may have set it aside, or replaced it on a network disk, since it was seen: then it is just gone.
    if (disk_.status(lookup.path).exists) lookup.problem = bytes.error().message;
    return lookup;
  }
  const DecodedEntry decoded = decode_entry(*bytes);
  if (decoded.state == EntryState::damaged) lookup.problem = decoded.reason;
  if (decoded.state != EntryState::good) return lookup;
  if (decoded.entry.request != key.request() || (same_toolchain && decoded.entry.toolchain != key.toolchain())) {
    lookup.problem = "it holds another request";
    return lookup;
  }
  lookup.entry = stored(decoded.entry);
  return lookup;
}

CacheDirectory::Lookup CacheDirectory::find(const ArtifactKey& key) const { return look_up(key.name(), key, true); }

CacheDirectory::Lookup CacheDirectory::find_any_toolchain(const ArtifactKey& key) const {
  std::vector<std::pair<int64_t, std::string>> candidates;  // newest first
  if (const Result<std::vector<std::string>> all = names()) {
    for (const std::string& name : *all) {
      if (name.starts_with(key.first())) candidates.emplace_back(-disk_.status(path_ + "/" + name).modified, name);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto& [age, name] : candidates) {
    Lookup lookup = look_up(name, key, false);
    if (lookup.entry) return lookup;
  }
  return {};
}

Status CacheDirectory::publish(const ArtifactKey& key, const Entry& entry) const {
  return disk_.write_atomically(entry_path(key), encode_entry(entry));
}

void CacheDirectory::remove_old_temporaries(int64_t before) const {
  const Result<std::vector<std::string>> all = disk_.list(path_);
  if (!all) return;
  for (const std::string& name : *all) {
    if (!is_temporary_name(name) || !is_entry_name(std::string_view(name).substr(0, entry_name_length))) continue;
    const std::string file = path_ + "/" + name;
    const FileStatus status = disk_.status(file);
    if (status.exists && status.modified < before) (void)disk_.remove(file);
  }
}

Status CacheDirectory::set_aside(const std::string& entry_path) const {
  return disk_.rename(entry_path, entry_path + ".bad");
}

Result<std::vector<std::string>> CacheDirectory::names() const {
  Result<std::vector<std::string>> all = disk_.list(path_);
  if (all) std::erase_if(*all, [](const std::string& name) { return !is_entry_name(name); });
  return all;
}

CacheDirectory::Read CacheDirectory::read(const std::string& name) const {
  const Result<std::string> bytes = disk_.read(path_ + "/" + name);
  if (!bytes) return {};
  const DecodedEntry decoded = decode_entry(*bytes);
  return {decoded.state, stored(decoded.entry)};
}

}  // namespace epifuse::cache
