// The order of looking and making: memory, this process's turn, disk, lock between processes, disk again, make,
// publish.
#include "cache/kernel_cache.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <thread>

namespace epifuse::cache {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Seconds without a write after which a temporary has no living writer; an entry is written in well under one.
constexpr int64_t temporary_lifetime = 3600;

CacheOptions cache_options(const Settings& settings, LogSink log) {
  CacheOptions options;
  options.read_directories = settings.read_cache_directories;
  options.directory = settings.cache_directory;
  options.wanted = settings.cache_wanted;
  options.log = std::move(log);
  return options;
}

KernelCache::KernelCache(FileSystem& disk, CacheOptions options) : disk_(disk), options_(std::move(options)) {}

std::optional<Found> KernelCache::find(const ArtifactKey& key) {
  if (const std::optional<Result<Found>> known = find_in_memory(key)) {
    return *known ? std::optional<Found>(**known) : std::nullopt;
  }
  return find_on_disk(key, OnDamage::warn);
}

std::optional<Found> KernelCache::find_any_toolchain(const ArtifactKey& key) {
  for (const CacheDirectory& directory : directories()) {
    CacheDirectory::Lookup lookup = directory.find_any_toolchain(key);
    if (!lookup.entry) continue;
    count(&CacheCounts::disk_hits);
    return Found{lookup.entry->kind,     std::make_shared<const std::string>(std::move(lookup.entry->payload)),
                 lookup.entry->metadata, lookup.entry->toolchain,
                 Source::disk,           lookup.path};
  }
  return std::nullopt;
}

Result<Found> KernelCache::find_or_make(const ArtifactKey& key, const std::function<Result<Made>()>& make) {
  if (std::optional<Result<Found>> known = find_in_memory(key)) return *std::move(known);
  const SingleFlight::Turn turn = flights_.take(key.name());
  if (std::optional<Result<Found>> known = find_in_memory(key)) return *std::move(known);  // another thread's work
  // Damage is dealt with under the lock: without it another process may just be replacing the file.
  const OnDamage reaction = writable() ? OnDamage::wait : OnDamage::warn;
  if (std::optional<Found> found = find_on_disk(key, reaction)) return *std::move(found);
  return make_and_publish(key, make);
}

Result<Found> KernelCache::make_and_publish(const ArtifactKey& key, const std::function<Result<Made>()>& make) {
  CacheDirectory* const directory = writable();
  std::unique_ptr<FileLock> lock;
  if (directory) {
    std::optional<Found> found;
    lock = lock_between_processes(key, found);
    if (!found) found = find_on_disk(key, OnDamage::set_aside);
    if (found) return *std::move(found);
  }

  Result<Made> made = make();
  if (!made) {
    count(&CacheCounts::failed_makes);
    if (made.error().kind != ErrorKind::environment) remember(key, made.error());
    return made.error();
  }
  count(&CacheCounts::makes);
  Found found{made->kind, nullptr, made->metadata, key.toolchain(), Source::made, ""};
  if (directory) {
    Entry entry{made->kind, key.request(), key.toolchain(), made->metadata, std::move(made->payload)};
    // Before publishing: on a full disk the room that killed processes left taken is what is missing.
    std::call_once(swept_, [&] { directory->remove_old_temporaries(std::time(nullptr) - temporary_lifetime); });
    const Status published = directory->publish(key, entry);
    if (published) {
      found.path = directory->entry_path(key);
    } else {
      count(&CacheCounts::failed_publications);
      bool first = false;
      {
        const std::lock_guard<std::mutex> guard(mutex_);
        first = !std::exchange(publication_warned_, true);
      }
      log(first ? LogLevel::warn : LogLevel::debug,
          fmt::format("a compiled kernel could not be stored: {}. It is used from memory; EPIFUSE_CACHE_DIR names "
                      "another directory for the kernel cache",
                      published.error().message));
    }
    made->payload = std::move(entry.payload);
  }
  found.payload = std::make_shared<const std::string>(std::move(made->payload));
  remember(key, found);
  return found;
}

std::unique_ptr<FileLock> KernelCache::lock_between_processes(const ArtifactKey& key, std::optional<Found>& appeared) {
  const std::string path = writable()->lock_path(key);
  const steady_clock::time_point start = steady_clock::now();
  milliseconds pause{1};
  bool said = false;
  for (;;) {
    Result<std::unique_ptr<FileLock>> lock = disk_.try_lock(path);
    if (!lock) {  // a full or read-only disk, or one that knows no locks: two processes may then do the same work
      log(LogLevel::debug, lock.error().message);
      return nullptr;
    }
    if (*lock) return *std::move(lock);
    if ((appeared = find_on_disk(key, OnDamage::wait))) return nullptr;
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
    if (waited >= options_.most_patience) {
      log(LogLevel::warn, fmt::format("another process has held {} for {} s; this process compiles the kernel itself",
                                      path, waited.count() / 1000));
      return nullptr;
    }
    if (!said && waited >= options_.progress_after) {
      said = true;
      log(LogLevel::warn, fmt::format("waiting for another process to compile a kernel (lock file {})", path));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds{20});
  }
}

std::optional<Result<Found>> KernelCache::find_in_memory(const ArtifactKey& key) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto place = memory_.find(key.name());
  if (place == memory_.end()) return std::nullopt;
  const Remembered& known = place->second;
  if (known.key.request() != key.request() || known.key.toolchain() != key.toolchain()) return std::nullopt;
  ++counts_.memory_hits;
  return known.outcome;
}

std::optional<Found> KernelCache::find_on_disk(const ArtifactKey& key, OnDamage reaction) {
  for (CacheDirectory& directory : directories()) {
    CacheDirectory::Lookup lookup = directory.find(key);
    if (!lookup.problem.empty() && !(directory.writable() && reaction == OnDamage::wait)) {
      report_damage(directory, lookup, directory.writable() && reaction == OnDamage::set_aside);
    }
    if (!lookup.entry) continue;
    count(&CacheCounts::disk_hits);
    Found found{lookup.entry->kind,     std::make_shared<const std::string>(std::move(lookup.entry->payload)),
                lookup.entry->metadata, lookup.entry->toolchain,
                Source::disk,           lookup.path};
    remember(key, found);
    return found;
  }
  return std::nullopt;
}

void KernelCache::report_damage(const CacheDirectory& directory, const CacheDirectory::Lookup& lookup, bool set_aside) {
  const bool moved = set_aside && directory.set_aside(lookup.path);
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!reported_.insert(lookup.path).second) return;
    ++counts_.damaged;
  }
  log(LogLevel::warn, fmt::format("the cache entry {} is not used: {}{}", lookup.path, lookup.problem,
                                  moved ? "; it is kept as " + lookup.path + ".bad" : ""));
}

std::vector<CacheDirectory>& KernelCache::directories() {
  std::call_once(opened_, [this] {
    for (const std::string& path : options_.read_directories) {
      CacheDirectory directory(disk_, path, CacheDirectory::Use::read_only);
      if (const Status opened = directory.open()) {
        directories_.push_back(std::move(directory));
      } else {
        log(LogLevel::warn, fmt::format("a directory of EPIFUSE_CACHE_READ is not used: {}", opened.error().message));
      }
    }
    if (options_.directory.empty()) {
      if (options_.wanted) {
        log(LogLevel::warn,
            "there is no place for the kernel cache (neither EPIFUSE_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set); "
            "kernels are kept in memory and compiled again by the next process");
      }
      return;
    }
    CacheDirectory directory(disk_, options_.directory, CacheDirectory::Use::writable);
    if (const Status opened = directory.open()) {
      directories_.push_back(std::move(directory));
    } else {
      log(LogLevel::warn, fmt::format("the kernel cache is not used: {}. Kernels are kept in memory and compiled again "
                                      "by the next process; EPIFUSE_CACHE_DIR names another directory",
                                      opened.error().message));
    }
  });
  return directories_;
}

CacheDirectory* KernelCache::writable() {
  std::vector<CacheDirectory>& all = directories();
  return !all.empty() && all.back().writable() ? &all.back() : nullptr;
}

Result<std::vector<ListedEntry>> KernelCache::list() {
  std::vector<ListedEntry> entries;
  for (const CacheDirectory& directory : directories()) {
    const Result<std::vector<std::string>> names = directory.names();
    if (!names) return names.error();
    for (const std::string& name : *names) {
      ListedEntry listed;
      listed.path = directory.path() + "/" + name;
      const FileStatus status = disk_.status(listed.path);
      if (!status.exists) continue;  // removed meanwhile
      listed.size = status.size;
      listed.modified = status.modified;
      CacheDirectory::Read decoded = directory.read(name);
      listed.state = decoded.state;
      listed.kind = decoded.entry.kind;
      listed.metadata = std::move(decoded.entry.metadata);
      listed.toolchain = std::move(decoded.entry.toolchain);
      entries.push_back(std::move(listed));
    }
  }
  return entries;
}

void KernelCache::remember(const ArtifactKey& key, Result<Found> outcome) {
  if (outcome) outcome->from = Source::memory;
  const std::lock_guard<std::mutex> guard(mutex_);
  memory_.insert_or_assign(key.name(), Remembered{key, std::move(outcome)});
}

CacheCounts KernelCache::counts() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return counts_;
}

void KernelCache::count(uint64_t CacheCounts::*which) {
  const std::lock_guard<std::mutex> guard(mutex_);
  ++(counts_.*which);
}

void KernelCache::log(LogLevel level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

}  // namespace epifuse::cache
