// One directory of cache entries: whether it can be trusted, and reading, publishing and setting aside entries in it.
//
// A cubin from the cache runs with the caller's rights, so a directory is used only if nobody else can write into it: a
// real directory, not a symbolic link, writable by its owner alone, and owned by this user (a read-only one may be
// root's). Each entry is held to the same when it is read, for who replaces a directory above does not own our files.
// Paths above are the administrator's business.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/artifact_key.h"
#include "base/file_system.h"
#include "base/result.h"
#include "base/shared_bytes.h"
#include "cache/entry_format.h"

namespace epifuse::cache {

// What a file of a cache directory is, by its name.
enum class FileKind {
  entry,      // 32 hex digits, a point, 32 hex digits
  temporary,  // an entry in the making
  lock,       // ENTRY.lock: somebody makes it
  claim,      // ENTRY.claim: the same, where a disk knows no locks
  bad,        // ENTRY.bad: could not be used, kept for a person to look at
  note,       // where the toolchain is (base/artifact_key.h)
  foreign,    // not ours, left alone
};
FileKind file_kind(std::string_view name);
inline constexpr std::string_view lock_suffix = ".lock", claim_suffix = ".claim", bad_suffix = ".bad";

// What its maker says of the content of a whole entry, whose meaning nobody else knows.
struct ContentVerdict {
  EntryState state = EntryState::good;
  std::string reason;  // when damaged: what is wrong, for a message
};
using ContentCheck = std::function<ContentVerdict(const EntryView&)>;

class CacheDirectory {
 public:
  // `shared`: read only, and others may own and write the directory and what is in it; whoever can, is trusted.
  enum class Use { read_only, shared, writable };

  // An entry is what `check` says of its content. Null: any content will do.
  CacheDirectory(FileSystem& disk, std::string path, Use use, uint32_t user = ::geteuid(),
                 ContentCheck check = nullptr);

  const std::string& path() const { return path_; }
  bool writable() const { return use_ == Use::writable; }

  // Creates a writable directory if it is missing. An error says why the directory is not used and how to mend it.
  Status open();
  // Whether there is nothing at all under its path.
  bool is_missing() const { return !disk_.status(path_).exists; }

  // Why there is no entry to be used.
  enum class Miss { none, absent, damaged, untrusted, other_version, unreadable };
  struct Lookup {
    Miss miss = Miss::absent;
    // What is wrong with a file that is there; empty: there is none, or nothing is, be it of another version.
    std::string problem;
    std::string path;  // of the entry's file
    FileStatus status;
    SharedBytes bytes;  // of the whole file, which nobody reads again: it may be removed or replaced at any time
    EntryView entry;    // parts of `bytes`, when miss is none

    explicit operator bool() const { return miss == Miss::none; }
  };
  // The entry under the key's name, if it is undamaged, trusted, and holds exactly this request and toolchain.
  Lookup find(const ArtifactKey& key) const;
  // The newest undamaged entry that holds this request, of whatever toolchain.
  Lookup find_any_toolchain(const ArtifactKey& key) const;

  // Creates the entry's file, or leaves the one that is there if it can be used; else replaces it.
  Status publish(const ArtifactKey& key, const Entry& entry) const;
  // The time of an entry's last write is that of its last use, to the hour: the system's own time of access stands
  // still where a disk is mounted with noatime. Nothing is written within an hour, nor into a read-only directory.
  void mark_used(const Lookup& found, int64_t now) const;
  // Renames a file that cannot be used to NAME.bad, for a person to look at; it replaces an older one of that name.
  Status set_aside(const std::string& entry_path) const;

  std::string entry_path(const ArtifactKey& key) const;

  // The names of all entries, good or damaged.
  Result<std::vector<std::string>> names() const;

  // The entry of that name, whatever it was made for.
  Lookup read(const std::string& name) const;
  // The same, and damaged also when the name is not that of its content, or the content cannot be used.
  Lookup inspect(const std::string& name) const;

 private:
  std::string distrust(const FileStatus& status) const;  // of an entry's file; empty: none
  std::string advice(const FileStatus& status) const;    // for a directory that others can write
  void check_content(Lookup& lookup) const;
  Lookup look_up(const std::string& name, const ArtifactKey& key, bool same_toolchain) const;

  FileSystem& disk_;
  std::string path_;
  Use use_;
  uint32_t user_;  // whose files are trusted
  ContentCheck check_;
};

// "absent", "other_version", …: the words of `--json` and of log lines.
std::string_view miss_name(CacheDirectory::Miss miss);

}  // namespace epifuse::cache
