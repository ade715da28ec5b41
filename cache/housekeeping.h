// What keeps a cache directory small: the least recently used entries go when it takes more room than it may, and what
// killed processes left behind goes anyway.
//
// Removing an entry disturbs nobody: a process that is loading it has opened the file, which stays as long as it is
// open, and reads it whole into memory; one that has not opened it yet sees a miss. Locks and temporaries are removed
// only when the system says that no living process holds them, or, where it cannot say, when they are an hour old.
// A time in the future tells nothing of when a file was used: it counts as the oldest of all.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "cache/cache_directory.h"

namespace epifuse::cache {

struct Housekeeping {
  uint64_t most_bytes = 0;     // by blocks of the disk; 0: any number
  int64_t now = 0;             // seconds since the epoch
  bool all_leftovers = false;  // however young, and claims, of which nobody can say whose they are
  bool all_entries = false;    // also those that are used
  std::string just_made;       // file name of an entry that stays, even if it alone is too large; may be empty
};

// What was done, and what is there now. Bytes are those of the disk's blocks.
struct Tidied {
  uint64_t entries = 0, bytes = 0;
  uint64_t removed_entries = 0, removed_bytes = 0;
  uint64_t removed_leftovers = 0;  // temporaries, locks, claims
  uint64_t removed_bad = 0;        // files set aside
  uint64_t not_removed = 0;        // that should have been
  std::string problem;             // with the first of those
};

// An error when the directory cannot be listed. What cannot be removed stays.
Result<Tidied> tidy(FileSystem& disk, const std::string& directory, const Housekeeping& wanted);

}  // namespace epifuse::cache
