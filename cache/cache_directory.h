// One directory of cache entries: whether it can be trusted, and reading, publishing and setting aside entries in it.
//
// A cubin from the cache runs with the caller's rights, so a directory is used only if nobody else can write into it: a
// real directory, not a symbolic link, writable by its owner alone, and owned by this user (a read-only one may be
// root's). Paths above it are the administrator's business.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/artifact_key.h"
#include "base/file_system.h"
#include "base/result.h"
#include "cache/entry_format.h"

namespace epifuse::cache {

class CacheDirectory {
 public:
  enum class Use { read_only, writable };

  CacheDirectory(FileSystem& disk, std::string path, Use use);

  const std::string& path() const { return path_; }
  bool writable() const { return use_ == Use::writable; }

  // Creates a writable directory if it is missing. An error says why the directory is not used.
  Status open();

  struct Stored {  // of an entry, without what it was looked up by
    EntryKind kind = EntryKind::artifact;
    std::string toolchain, metadata, payload;
  };
  struct Lookup {
    std::optional<Stored> entry;
    std::string path;     // of the entry's file
    std::string problem;  // not empty: a file is there and cannot be used
  };
  // The entry under the key's name, if it is undamaged and holds exactly this request and toolchain.
  Lookup find(const ArtifactKey& key) const;
  // The newest undamaged entry that holds this request, of whatever toolchain.
  Lookup find_any_toolchain(const ArtifactKey& key) const;

  Status publish(const ArtifactKey& key, const Entry& entry) const;
  // Removes temporaries of entries that were last written before `before` (seconds since the epoch): whoever wrote them
  // was killed. What cannot be removed stays; it does no harm but take room.
  void remove_old_temporaries(int64_t before) const;
  // Renames a file that cannot be used to NAME.bad, for a person to look at; it replaces an older one of that name.
  Status set_aside(const std::string& entry_path) const;

  std::string entry_path(const ArtifactKey& key) const;
  std::string lock_path(const ArtifactKey& key) const;

  // The names of all entries, good or damaged.
  Result<std::vector<std::string>> names() const;
  struct Read {
    EntryState state = EntryState::damaged;
    Stored entry;  // when good
  };
  Read read(const std::string& name) const;

 private:
  Lookup look_up(const std::string& name, const ArtifactKey& key, bool same_toolchain) const;

  FileSystem& disk_;
  std::string path_;
  Use use_;
};

}  // namespace epifuse::cache
