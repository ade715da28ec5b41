// KernelCache: request bytes to artifact bytes, in memory and on disk. It knows no CUDA.
//
// One make per key across the threads of this process and, through a lock file in the cache directory, across
// processes. Nothing that goes wrong with the disk reaches the caller: a damaged entry is a miss, a directory that
// cannot be trusted or written is a warning (one each, naming EPIFUSE_CACHE_DIR), and what was made is always returned
// from memory, never read back. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/artifact_key.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/result.h"
#include "base/settings.h"
#include "cache/cache_directory.h"
#include "cache/entry_format.h"
#include "cache/single_flight.h"

namespace epifuse::cache {

struct CacheOptions {
  std::vector<std::string> read_directories;  // looked into first, in this order; never written
  std::string directory;                      // empty: memory only
  bool wanted = true;                         // false: memory only is what the user asked for, no warning
  LogSink log;
  std::chrono::milliseconds progress_after{5000};   // waiting longer for another process is said in a log line
  std::chrono::milliseconds most_patience{120000};  // then this process makes the artifact itself
};
CacheOptions cache_options(const Settings& settings, LogSink log);

enum class Source { memory, disk, made };

struct Found {
  EntryKind kind = EntryKind::artifact;
  std::shared_ptr<const std::string> payload;
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
  std::string path;
  uint64_t size = 0;     // bytes of the file
  int64_t modified = 0;  // seconds since the epoch
  EntryState state = EntryState::good;
  EntryKind kind = EntryKind::artifact;
  std::string metadata, toolchain;  // when good
};

// What happened so far, for tests and for `--json`.
struct CacheCounts {
  uint64_t memory_hits = 0, disk_hits = 0, makes = 0, failed_makes = 0;
  uint64_t damaged = 0;  // files that could not be used
  uint64_t failed_publications = 0;
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

  // All entries on disk, by path.
  Result<std::vector<ListedEntry>> list();

  CacheCounts counts() const;

 private:
  enum class OnDamage { wait, warn, set_aside };

  std::vector<CacheDirectory>& directories();  // those that can be used; opened at the first call
  CacheDirectory* writable();
  std::optional<Result<Found>> find_in_memory(const ArtifactKey& key);
  std::optional<Found> find_on_disk(const ArtifactKey& key, OnDamage reaction);
  Result<Found> make_and_publish(const ArtifactKey& key, const std::function<Result<Made>()>& make);
  // The lock on a key between processes, or null when it is not to be had. `appeared` is set instead if the holder
  // published the entry meanwhile.
  std::unique_ptr<FileLock> lock_between_processes(const ArtifactKey& key, std::optional<Found>& appeared);
  void report_damage(const CacheDirectory& directory, const CacheDirectory::Lookup& lookup, bool set_aside);
  void remember(const ArtifactKey& key, Result<Found> outcome);
  void log(LogLevel level, const std::string& text) const;
  void count(uint64_t CacheCounts::*which);

  struct Remembered {
    ArtifactKey key;
    Result<Found> outcome;
  };

  FileSystem& disk_;
  const CacheOptions options_;
  SingleFlight flights_;

  std::once_flag opened_, swept_;
  std::vector<CacheDirectory> directories_;

  mutable std::mutex mutex_;                  // guards what follows
  std::map<std::string, Remembered> memory_;  // by ArtifactKey::name
  std::set<std::string> reported_;            // paths of damaged files that were warned of
  bool publication_warned_ = false;
  CacheCounts counts_;
};

}  // namespace epifuse::cache
