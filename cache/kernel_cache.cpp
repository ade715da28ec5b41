// The order of looking and making: memory, this process's turn, disk, lock between processes, disk again, make,
// publish.
#include "cache/kernel_cache.h"

#include <ctime>
#include <fmt/format.h>
#include <utility>

namespace epifuse::cache {
namespace {

using std::chrono::steady_clock;

// Entries that are read to say in a log line what differs.
constexpr size_t most_compared = 500;

double milliseconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

// How a line about a key begins.
std::string subject_of(const ArtifactKey& key) {
  return key.subject().empty() ? key.name() : fmt::format("kernel '{}'", key.subject());
}

Found found_on_disk(const CacheDirectory::Lookup& lookup) {
  const EntryView& entry = lookup.entry;
  const auto offset = static_cast<size_t>(entry.payload.data() - lookup.bytes.data());
  return {entry.kind,
          lookup.bytes.part(offset, entry.payload.size()),
          std::string(entry.metadata),
          std::string(entry.toolchain),
          Source::disk,
          lookup.path};
}

}  // namespace

CacheOptions cache_options(const Settings& settings, LogSink log) {
  return {.read_directories = settings.read_cache_directories,
          .trust_shared = settings.trust_shared,
          .directory = settings.cache_directory,
          .user = settings.user,
          .wanted = settings.cache_wanted,
          .most_bytes = settings.cache_bytes,
          .explain_misses = settings.log >= LogLevel::info,
          .log = std::move(log)};
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
    const CacheDirectory::Lookup lookup = directory.find_any_toolchain(key);
    if (!lookup) continue;
    count(&CacheCounts::disk_hits);
    directory.mark_used(lookup, std::time(nullptr));
    return found_on_disk(lookup);
  }
  return std::nullopt;
}

Result<Found> KernelCache::find_or_make(const ArtifactKey& key, const std::function<Result<Made>()>& make) {
  if (std::optional<Result<Found>> known = find_in_memory(key)) return *std::move(known);
  const SingleFlight::Turn turn = flights_.take(key.name());
  if (std::optional<Result<Found>> known = find_in_memory(key)) return *std::move(known);  // another thread's work
  // Damage is dealt with under the lock: without it another process may just be replacing the file.
  const OnDamage reaction = writable() ? OnDamage::wait : OnDamage::warn;
  const steady_clock::time_point start = steady_clock::now();
  Missed missed;
  if (std::optional<Found> found = find_on_disk(key, reaction, &missed)) return *std::move(found);
  log_miss(key, missed, start);
  return make_and_publish(key, make);
}

Result<Found> KernelCache::make_and_publish(const ArtifactKey& key, const std::function<Result<Made>()>& make) {
  CacheDirectory* const directory = writable();
  std::unique_ptr<FileLock> lock;
  if (directory) {
    std::optional<Found> found;
    lock = wait_for_lock(disk_, directory->entry_path(key), options_.patience, options_.log, [&] {
      found = find_on_disk(key, OnDamage::wait);
      return found.has_value();
    });
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
  Found found{made->kind, {}, made->metadata, key.toolchain(), Source::made, ""};
  Entry entry{made->kind, key.request(), key.toolchain(), made->metadata, std::move(made->payload)};
  if (directory) publish(*directory, key, entry, found);
  found.payload = SharedBytes(std::move(entry.payload));
  remember(key, found);
  return found;
}

// Whether an entry of this size may be stored; if not, a line says so.
bool KernelCache::fits(const ArtifactKey& key, uint64_t bytes) {
  if (options_.most_bytes == 0 || bytes <= options_.most_bytes) return true;
  bool first = false;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    first = !std::exchange(size_warned_, true);
  }
  log(first ? LogLevel::warn : LogLevel::debug,
      fmt::format("{} takes {} bytes and is not stored: the kernel cache may take {}. It is used from memory, and "
                  "compiled again by the next process; EPIFUSE_CACHE_SIZE is the limit",
                  subject_of(key), bytes, options_.most_bytes));
  return false;
}

void KernelCache::publish(CacheDirectory& directory, const ArtifactKey& key, const Entry& entry, Found& found) {
  constexpr uint64_t block = 4096;
  const uint64_t size = (entry.payload.size() + entry.request.size() + block - 1) / block * block;
  if (!fits(key, size)) return;
  // In front of the first one: on a full disk the room that killed processes left taken is what is missing.
  keep_small(directory, key, 0);
  if (const Status published = directory.publish(key, entry); !published) {
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
    return;
  }
  found.path = directory.entry_path(key);
  keep_small(directory, key, size);
}

// A walk over the directory costs some microseconds for each entry, so a process walks once, and again when what it
// added itself fills the room, or a good part of it, which others may be filling as fast.
void KernelCache::keep_small(const CacheDirectory& directory, const ArtifactKey& just_made, uint64_t added) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    added_since_walk_ += added;
    const bool too_large =
        options_.most_bytes != 0 && room_taken_ &&
        (*room_taken_ + added_since_walk_ > options_.most_bytes || added_since_walk_ > options_.most_bytes / 16);
    if (room_taken_ && !too_large) return;
    added_since_walk_ = 0;
    if (!room_taken_) room_taken_ = 0;  // one thread walks
  }
  const Result<Tidied> tidied =
      tidy(disk_, directory.path(),
           {.most_bytes = options_.most_bytes, .now = std::time(nullptr), .just_made = just_made.name()});
  if (!tidied) {
    log(LogLevel::debug, tidied.error().message);
    return;
  }
  count(&CacheCounts::evicted, tidied->removed_entries);
  if (tidied->removed_entries > 0) {
    log(LogLevel::info,
        fmt::format("the kernel cache {} was larger than {} bytes; least recently used entries that were "
                    "removed: {}",
                    directory.path(), options_.most_bytes, tidied->removed_entries));
  }
  const std::lock_guard<std::mutex> guard(mutex_);
  room_taken_ = tidied->bytes;
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

std::optional<Found> KernelCache::find_on_disk(const ArtifactKey& key, OnDamage reaction, Missed* missed) {
  const steady_clock::time_point start = steady_clock::now();
  for (CacheDirectory& directory : directories()) {
    const CacheDirectory::Lookup lookup = directory.find(key);
    if (!lookup.problem.empty() && !(directory.writable() && reaction == OnDamage::wait)) {
      report_damage(directory, lookup, directory.writable() && reaction == OnDamage::set_aside);
    }
    if (lookup) {
      count(&CacheCounts::disk_hits);
      directory.mark_used(lookup, std::time(nullptr));
      Found found = found_on_disk(lookup);
      remember(key, found);
      log(LogLevel::info,
          fmt::format("{}: cache hit in {:.2f} ms, {}", subject_of(key), milliseconds_since(start), lookup.path));
      return found;
    }
    if (missed && missed->miss == CacheDirectory::Miss::absent) *missed = {lookup.miss, lookup.problem};
  }
  return std::nullopt;
}

void KernelCache::report_damage(const CacheDirectory& directory, const CacheDirectory::Lookup& lookup, bool set_aside) {
  // What cannot be read may be whole: the disk is at fault, or the network.
  const bool moved = set_aside && lookup.miss != CacheDirectory::Miss::unreadable && directory.set_aside(lookup.path);
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!reported_.insert(lookup.path).second) return;
    ++counts_.damaged;
  }
  log(LogLevel::warn, fmt::format("the cache entry {} is not used: {}{}", lookup.path, lookup.problem,
                                  moved ? fmt::format("; it is kept as {}{}", lookup.path, bad_suffix) : ""));
}

void KernelCache::log_miss(const ArtifactKey& key, const Missed& missed, steady_clock::time_point start) {
  if (!options_.log) return;
  const double milliseconds = milliseconds_since(start);
  std::string reason(miss_name(missed.miss));
  if (!missed.problem.empty()) reason += ": " + missed.problem;
  if (options_.explain_misses && missed.miss == CacheDirectory::Miss::absent) {
    if (const auto nearest = nearest_entry(directories(), key, most_compared)) {
      reason += fmt::format("; the nearest entry, {}, differs in {}", nearest->path, parts_of(nearest->differences));
    }
  }
  log(LogLevel::info, fmt::format("{}: cache miss in {:.2f} ms, {}", subject_of(key), milliseconds, reason));
}

std::vector<CacheDirectory>& KernelCache::directories() {
  const std::lock_guard<std::mutex> guard(opening_);
  if (!std::exchange(are_open_, true)) open_directories();
  return directories_;
}

void KernelCache::open_directories() {
  for (const std::string& path : options_.read_directories) {
    CacheDirectory directory(disk_, path,
                             options_.trust_shared ? CacheDirectory::Use::shared : CacheDirectory::Use::read_only,
                             options_.user, options_.check);
    if (const Status opened = directory.open()) {
      directories_.push_back(std::move(directory));
    } else {
      log(LogLevel::warn, fmt::format("a directory of EPIFUSE_CACHE_READ is not used: {}", opened.error().message));
    }
  }
  if (options_.directory.empty()) {
    if (options_.wanted && options_.create) {
      log(LogLevel::warn,
          "there is no place for the kernel cache (neither EPIFUSE_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set); "
          "kernels are kept in memory and compiled again by the next process");
    }
    return;
  }
  CacheDirectory directory(disk_, options_.directory, CacheDirectory::Use::writable, options_.user, options_.check);
  if (!options_.create && directory.is_missing()) return;
  own_directory_ = directory.open();
  if (own_directory_) {
    directories_.push_back(std::move(directory));
  } else if (options_.create) {
    log(LogLevel::warn, fmt::format("the kernel cache is not used: {}. Kernels are kept in memory and compiled again "
                                    "by the next process; EPIFUSE_CACHE_DIR names another directory",
                                    own_directory_.error().message));
  }
}

CacheDirectory* KernelCache::writable() {
  std::vector<CacheDirectory>& all = directories();
  return !all.empty() && all.back().writable() ? &all.back() : nullptr;
}

Status KernelCache::visit(std::string_view name_prefix, const std::function<void(const ListedEntry&)>& visitor) {
  for (const CacheDirectory& directory : directories()) {
    const Result<std::vector<std::string>> names = directory.names();
    if (!names) return names.error();
    for (const std::string& name : *names) {
      if (!name.starts_with(name_prefix)) continue;
      const ListedEntry entry{directory.inspect(name), directory.writable()};
      if (entry.found.miss != CacheDirectory::Miss::absent) visitor(entry);  // else it was removed meanwhile
    }
  }
  return {};
}

KernelCache::Explanation KernelCache::explain(const ArtifactKey& key) {
  Explanation explanation;
  bool is_there = false;
  for (const CacheDirectory& directory : directories()) {
    explanation.lookups.push_back(directory.find(key));
    is_there = is_there || explanation.lookups.back();
  }
  if (!is_there) explanation.nearest = nearest_entry(directories(), key);
  return explanation;
}

Result<Tidied> KernelCache::prune(uint64_t most_bytes, bool everything) {
  using Miss = CacheDirectory::Miss;
  const CacheDirectory* const directory = writable();
  if (!directory) return Tidied();
  const Result<std::vector<std::string>> names = directory->names();
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (everything) break;
    const CacheDirectory::Lookup found = directory->inspect(name);
    if (found.miss == Miss::damaged || found.miss == Miss::untrusted) (void)directory->set_aside(found.path);
  }
  return tidy(disk_, directory->path(),
              {.most_bytes = most_bytes,
               .now = std::time(nullptr),
               .all_leftovers = true,
               .all_entries = everything,
               .just_made = ""});
}

std::vector<KernelCache::Place> KernelCache::places() {
  std::vector<Place> list;
  for (const CacheDirectory& directory : directories()) list.push_back({directory.path(), directory.writable()});
  return list;
}

Status KernelCache::own_directory() {
  directories();
  return own_directory_;
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

void KernelCache::count(uint64_t CacheCounts::*which, uint64_t by) {
  const std::lock_guard<std::mutex> guard(mutex_);
  counts_.*which += by;
}

void KernelCache::log(LogLevel level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

}  // namespace epifuse::cache
