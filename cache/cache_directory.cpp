// Trust in a directory and in a file, and the way from a key to the file of its entry.
#include "cache/cache_directory.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "base/digest.h"

namespace epifuse::cache {
namespace {

// An entry that is used all the time is stamped this often, in seconds.
constexpr int64_t stamp_interval = 3600;

// The mode of a directory like /tmp: everybody may write, and removes nobody else's files.
constexpr uint32_t sticky = 01000;

// A trailing slash, or a point behind it, would make lstat follow the link that open() is to refuse.
std::string without_trailing_slashes(std::string path) {
  for (;;) {
    if (path.size() > 1 && path.back() == '/')
      path.pop_back();
    else if (path.size() > 2 && path.ends_with("/."))
      path.resize(path.size() - 1);
    else
      return path;
  }
}

constexpr size_t entry_name_length = 2 * digest_digits + 1;

bool is_entry_name(std::string_view name) {
  return name.size() == entry_name_length && is_digest_text(name.substr(0, digest_digits)) &&
         name[digest_digits] == '.' && is_digest_text(name.substr(digest_digits + 1));
}

bool is_note_name(std::string_view name) {
  return name.starts_with(toolchain_note_prefix) && is_digest_text(name.substr(toolchain_note_prefix.size()));
}

CacheDirectory::Miss miss_of(EntryState state) {
  using Miss = CacheDirectory::Miss;
  switch (state) {
    case EntryState::damaged: return Miss::damaged;
    case EntryState::other_version: return Miss::other_version;
    case EntryState::good: break;
  }
  return Miss::none;
}

}  // namespace

FileKind file_kind(std::string_view name) {
  if (is_entry_name(name)) return FileKind::entry;
  if (is_note_name(name)) return FileKind::note;
  if (is_temporary_name(name)) {
    constexpr size_t note_length = toolchain_note_prefix.size() + digest_digits;
    const bool ours = is_entry_name(name.substr(0, entry_name_length)) || is_note_name(name.substr(0, note_length));
    return ours ? FileKind::temporary : FileKind::foreign;
  }
  if (!is_entry_name(name.substr(0, entry_name_length))) return FileKind::foreign;
  const std::string_view suffix = name.substr(entry_name_length);
  if (suffix == lock_suffix) return FileKind::lock;
  if (suffix == claim_suffix) return FileKind::claim;
  return suffix == bad_suffix ? FileKind::bad : FileKind::foreign;
}

std::string_view miss_name(CacheDirectory::Miss miss) {
  constexpr std::string_view names[] = {"good", "absent", "damaged", "untrusted", "other_version", "unreadable"};
  return names[static_cast<size_t>(miss)];
}

CacheDirectory::CacheDirectory(FileSystem& disk, std::string path, Use use, uint32_t user, ContentCheck check)
    : disk_(disk), path_(without_trailing_slashes(std::move(path))), use_(use), user_(user), check_(std::move(check)) {}

Status CacheDirectory::open() {
  FileStatus status = disk_.status(path_);
  if (!status.exists && writable()) {
    if (Status made = disk_.make_directories(path_); !made) return made;
    status = disk_.status(path_);
  }
  if (!status.exists) return environment_error(fmt::format("{} does not exist", path_));
  if (status.is_symlink) {
    return environment_error(
        fmt::format("{} is a symbolic link, which whoever owns it can turn; name the directory itself", path_));
  }
  if (!status.is_directory) return environment_error(fmt::format("{} is not a directory", path_));
  if (use_ == Use::shared) return {};
  const std::string or_share =
      writable() ? "" : ", or set EPIFUSE_CACHE_TRUST=shared if everybody who can write to it is to be trusted";
  if (status.owner != user_ && (writable() || status.owner != 0)) {
    return environment_error(
        fmt::format("{} belongs to user {} and not to this user ({}); name a directory of one's own{}", path_,
                    status.owner, user_, or_share));
  }
  if (status.mode & 022) {
    return environment_error(fmt::format("others can write to {} (mode {:03o}); {}{}", path_, status.mode & 01777,
                                         advice(status), or_share));
  }
  return {};
}

// Only a directory that is a cache and nothing else is to be closed for others.
std::string CacheDirectory::advice(const FileStatus& status) const {
  const Result<std::vector<std::string>> names = disk_.list(path_);
  const bool has_others = !names || std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return file_kind(name) == FileKind::foreign;
  });
  if (status.mode & sticky || has_others) return "name a directory of one's own, such as ~/.cache/epifuse";
  return fmt::format("if nobody has put anything there, `chmod go-w {}` mends it", path_);
}

std::string CacheDirectory::entry_path(const ArtifactKey& key) const { return path_ + "/" + key.name(); }

std::string CacheDirectory::distrust(const FileStatus& status) const {
  if (status.is_symlink) return "it is a symbolic link";
  if (use_ == Use::shared) return "";
  if (status.owner != user_ && (writable() || status.owner != 0)) {
    return fmt::format("it belongs to user {} and not to this user ({})", status.owner, user_);
  }
  if (status.mode & 022) return fmt::format("others can write to it (mode {:03o})", status.mode & 0777);
  return "";
}

CacheDirectory::Lookup CacheDirectory::read(const std::string& name) const {
  Lookup lookup;
  lookup.path = path_ + "/" + name;
  Result<FileSystem::Content> content = disk_.read_content(lookup.path);
  const auto because = [&](Miss miss, std::string problem) {
    lookup.miss = miss;
    lookup.problem = std::move(problem);
    return lookup;
  };
  // Another process may have set it aside meanwhile, or its directory may be gone: then it is just not there.
  if (!content && !disk_.status(lookup.path).exists) return lookup;
  if (!content) return because(Miss::unreadable, content.error().message);
  if (!content->status.exists) return lookup;
  lookup.status = content->status;
  if (lookup.status.is_directory) return because(Miss::damaged, "it is a directory");
  if (lookup.status.is_special) return because(Miss::damaged, "it is no regular file");
  if (std::string problem = distrust(content->status); !problem.empty()) {
    return because(Miss::untrusted, std::move(problem));
  }
  lookup.bytes = SharedBytes(std::move(content->bytes));
  DecodedEntry decoded = decode_entry(lookup.bytes);
  lookup.miss = miss_of(decoded.state);
  lookup.problem = std::move(decoded.reason);
  if (lookup) lookup.entry = decoded.entry;
  return lookup;
}

void CacheDirectory::check_content(Lookup& lookup) const {
  if (!lookup || !check_) return;
  ContentVerdict verdict = check_(lookup.entry);
  lookup.miss = miss_of(verdict.state);
  lookup.problem = std::move(verdict.reason);
}

CacheDirectory::Lookup CacheDirectory::inspect(const std::string& name) const {
  Lookup lookup = read(name);
  if (lookup && ArtifactKey(std::string(lookup.entry.request), std::string(lookup.entry.toolchain)).name() != name) {
    lookup.miss = Miss::damaged;
    lookup.problem = "its name is not that of its request";
  }
  check_content(lookup);
  return lookup;
}

CacheDirectory::Lookup CacheDirectory::look_up(const std::string& name, const ArtifactKey& key,
                                               bool same_toolchain) const {
  Lookup lookup = read(name);
  if (lookup &&
      (lookup.entry.request != key.request() || (same_toolchain && lookup.entry.toolchain != key.toolchain()))) {
    lookup.miss = Miss::damaged;
    lookup.problem = "it holds another request";
  }
  check_content(lookup);
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
    if (Lookup lookup = look_up(name, key, false)) return lookup;
  }
  return {};
}

Status CacheDirectory::publish(const ArtifactKey& key, const Entry& entry) const {
  const std::string bytes = encode_entry(entry);
  const Result<bool> created = disk_.create_atomically(entry_path(key), bytes);
  if (!created) return created.error();
  // Somebody else was faster, or there is one that cannot be used and could not be set aside.
  return *created || find(key) ? Status() : disk_.write_atomically(entry_path(key), bytes);
}

void CacheDirectory::mark_used(const Lookup& found, int64_t now) const {
  // A time in the future, from a clock that was wrong, would never grow old.
  if (writable() && std::abs(now - found.status.modified) > stamp_interval) (void)disk_.touch(found.path);
}

Status CacheDirectory::set_aside(const std::string& entry_path) const {
  const std::string bad = entry_path + std::string(bad_suffix);
  Status moved = disk_.rename(entry_path, bad);
  // A file and a directory do not replace each other.
  return !moved && disk_.status(bad).exists && disk_.remove(bad) ? disk_.rename(entry_path, bad) : moved;
}

Result<std::vector<std::string>> CacheDirectory::names() const {
  Result<std::vector<std::string>> all = disk_.list(path_);
  if (all) std::erase_if(*all, [](const std::string& name) { return file_kind(name) != FileKind::entry; });
  return all;
}

}  // namespace epifuse::cache
