// KernelCache: request bytes to artifact bytes, in memory and on disk. It knows no CUDA.
//
// One make per key across the threads of this process and, through a lock file in the cache directory, across
// processes; different keys are made at the same time. Nothing that goes wrong with the disk reaches the caller: a
// damaged entry is a miss, a directory that cannot be trusted or written is a warning (one each, saying how to mend
// it), and what was made is always returned from memory, never read back. Thread-safe; not for use in a forked child.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/artifact_key.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/result.h"
#include "base/settings.h"
#include "base/shared_bytes.h"
#include "cache/cache_directory.h"
#include "cache/entry_format.h"
#include "cache/housekeeping.h"
#include "cache/key_lock.h"
#include "cache/nearest_entry.h"
#include "cache/single_flight.h"

namespace epifuse::cache {

struct CacheOptions {
  std::vector<std::string> read_directories;  // looked into first, in this order; never written
  bool trust_shared = false;                  // of those: others may own and write them
  std::string directory;                      // empty: memory only
  uint32_t user = ::geteuid();                // whose files are trusted
  bool wanted = true;                         // false: memory only is what the user asked for, no warning
  uint64_t most_bytes = uint64_t{2} << 30;    // that `directory` may take on the disk; 0: any number
  bool create = true;           // `directory` where it is missing; false: it is as if it were empty, and who asks
                                // own_directory() is told of a refusal, in place of the log
  ContentCheck check;           // of entries; null: any content will do
  bool explain_misses = false;  // the line of a miss says what differs, for which entries are read
  LogSink log;
  Patience patience;  // with another process that makes what this one wants
};
CacheOptions cache_options(const Settings& settings, LogSink log);

enum class Source { memory, disk, made };

struct Found {
  EntryKind kind = EntryKind::artifact;
  SharedBytes payload;
  std::string metadata;
  std::string toolchain;  // that made it
  Source from = Source::memory;
  std::string path;  // of the entry's file; empty when it was never on disk
};

struct Made {
  EntryKind kind = EntryKind::artifact;
  std::string payload;
  std::string metadata;  // a small JSON object for people
};

struct ListedEntry {
  CacheDirectory::Lookup found;
  bool writable = false;  // it is in the directory that this process writes
};

// What happened so far, for tests and for `--json`.
struct CacheCounts {
  uint64_t memory_hits = 0, disk_hits = 0, makes = 0, failed_makes = 0;
  uint64_t damaged = 0;  // files that could not be used
  uint64_t failed_publications = 0;
  uint64_t evicted = 0;  // entries removed because the directory was too large
};

class KernelCache {
 public:
  KernelCache(FileSystem& disk, CacheOptions options);

  std::optional<Found> find(const ArtifactKey& key);
  // For a machine without a toolchain: an artifact made by any toolchain from the same request.
  std::optional<Found> find_any_toolchain(const ArtifactKey& key);

  // find(), or else `make`, whose result is kept and published. An error of `make` is remembered in this process, for
  // it would come again, unless it is one of the environment.
  Result<Found> find_or_make(const ArtifactKey& key, const std::function<Result<Made>()>& make);

  // Shows all entries on disk whose file's name begins so, good and bad ones (CacheDirectory::inspect), in the order in
  // which directories are looked into; one after the other, for together they may be larger than the memory.
  Status visit(std::string_view name_prefix, const std::function<void(const ListedEntry&)>& visitor);

  // Why there is no entry, or that there is one: what the file under the key's name is, in each directory, and the
  // nearest entry where there is none.
  struct Explanation {
    std::vector<CacheDirectory::Lookup> lookups;  // one for each directory, in order
    std::optional<NearestEntry> nearest;          // when no lookup found it
  };
  Explanation explain(const ArtifactKey& key);

  // Removes what killed processes left in the writable directory, entries that are damaged or not to be trusted, files
  // set aside, and the least recently used entries until it takes no more than `most_bytes` (0: any number); with
  // `everything` all entries. Nothing without a writable directory.
  Result<Tidied> prune(uint64_t most_bytes, bool everything);

  // The directories that are used, in the order in which they are looked into.
  struct Place {
    std::string path;
    bool writable = false;
  };
  std::vector<Place> places();
  // Why the own directory is not used, and how to mend that (environment). Good: it is used, or there is none.
  Status own_directory();

  const CacheOptions& options() const { return options_; }
  CacheCounts counts() const;

 private:
  enum class OnDamage { wait, warn, set_aside };

  // What find_on_disk came upon where it found nothing.
  struct Missed {
    CacheDirectory::Miss miss = CacheDirectory::Miss::absent;
    std::string problem;
  };

  std::vector<CacheDirectory>& directories();  // those that can be used; opened at the first call
  void open_directories();
  CacheDirectory* writable();
  std::optional<Result<Found>> find_in_memory(const ArtifactKey& key);
  std::optional<Found> find_on_disk(const ArtifactKey& key, OnDamage reaction, Missed* missed = nullptr);
  Result<Found> make_and_publish(const ArtifactKey& key, const std::function<Result<Made>()>& make);
  // Puts a made artifact into the directory, and the directory in order.
  void publish(CacheDirectory& directory, const ArtifactKey& key, const Entry& entry, Found& found);
  void keep_small(const CacheDirectory& directory, const ArtifactKey& just_made, uint64_t added);
  void report_damage(const CacheDirectory& directory, const CacheDirectory::Lookup& lookup, bool set_aside);
  bool fits(const ArtifactKey& key, uint64_t bytes);
  void log_miss(const ArtifactKey& key, const Missed& missed, std::chrono::steady_clock::time_point start);
  void remember(const ArtifactKey& key, Result<Found> outcome);
  void log(LogLevel level, const std::string& text) const;
  void count(uint64_t CacheCounts::*which, uint64_t by = 1);

  struct Remembered {
    ArtifactKey key;
    Result<Found> outcome;
  };

  FileSystem& disk_;
  const CacheOptions options_;
  SingleFlight flights_;

  std::mutex opening_;  // no once_flag: on the way of every hit, that would be a system call
  bool are_open_ = false;
  std::vector<CacheDirectory> directories_;
  Status own_directory_;

  mutable std::mutex mutex_;                  // guards what follows
  std::map<std::string, Remembered> memory_;  // by ArtifactKey::name
  std::set<std::string> reported_;            // paths of damaged files that were warned of
  bool publication_warned_ = false, size_warned_ = false;
  std::optional<uint64_t> room_taken_;  // by the writable directory, as far as this process knows
  uint64_t added_since_walk_ = 0;       // by this process; others add as well
  CacheCounts counts_;
};

}  // namespace epifuse::cache
