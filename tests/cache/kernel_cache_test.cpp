// One make per key, and a disk that goes wrong in every way without the caller noticing more than a warning.
#include "cache/kernel_cache.h"

#include <atomic>
#include <ctime>
#include <thread>

#include "base/artifact_record.h"
#include "base/ensure.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/recording_log.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace epifuse::test;

namespace {

const ArtifactKey key("request", "toolchain");

// A compiler that counts its calls.
struct Maker {
  std::string payload = "cubin";
  std::chrono::milliseconds takes{0};
  std::atomic<int> calls{0};

  std::function<Result<Made>()> function() {
    return [this]() -> Result<Made> {
      ++calls;
      std::this_thread::sleep_for(takes);
      return Made{EntryKind::artifact, payload, R"({"kernel":"k"})"};
    };
  }
};

CacheOptions options_for(RecordingLog& log, std::string directory = "/c") {
  CacheOptions options;
  options.directory = std::move(directory);
  options.log = log.sink();
  return options;
}

// The caller sees a made kernel and one warning that names the setting; a second request is served from memory.
void check_goes_on_with_one_warning(FileSystem& disk, CacheOptions options, const RecordingLog& log,
                                    const std::string& expected) {
  KernelCache cache(disk, std::move(options));
  Maker maker;
  for (const std::string request : {"one", "two", "one", "two"}) {
    const Result<Found> found = cache.find_or_make(ArtifactKey(request, "t"), maker.function());
    REQUIRE(found);
    CHECK(found->payload == "cubin");
  }
  CHECK(maker.calls == 2);
  REQUIRE(log.warnings().size() == 1);
  CHECK(log.warnings()[0].find("EPIFUSE_CACHE_DIR") != std::string::npos);
  CHECK(log.warnings()[0].find(expected) != std::string::npos);
}

}  // namespace

TEST_CASE("made once, then from memory, then from disk") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  KernelCache first(disk, options_for(log));
  CHECK(!first.find(key));
  const Result<Found> made = first.find_or_make(key, maker.function());
  REQUIRE(made);
  CHECK(made->from == Source::made);
  CHECK(made->path == "/c/" + key.name());
  CHECK(first.find_or_make(key, maker.function())->from == Source::memory);
  CHECK(first.find(key)->from == Source::memory);

  KernelCache second(disk, options_for(log));  // as a new process
  const Result<Found> found = second.find_or_make(key, maker.function());
  CHECK(found->from == Source::disk);
  CHECK(found->payload == "cubin");
  CHECK(found->metadata == R"({"kernel":"k"})");
  CHECK(found->toolchain == "toolchain");
  CHECK(found->kind == EntryKind::artifact);
  CHECK(maker.calls == 1);
  CHECK(second.counts().disk_hits == 1);
  CHECK(second.counts().makes == 0);
  CHECK(log.warnings().empty());
}

TEST_CASE("a hit neither writes nor locks") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  RecordingLog log;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, maker.function()));
  const int writes = disk.counts.writes, locks = disk.counts.locks;
  CHECK(KernelCache(disk, options_for(log)).find_or_make(key, maker.function())->from == Source::disk);
  CHECK(disk.counts.writes == writes);
  CHECK(disk.counts.locks == locks);
}

TEST_CASE("a redirect is kept like an artifact and told apart from one") {
  MemoryFileSystem disk;
  RecordingLog log;
  const auto refuse = []() -> Result<Made> { return Made{EntryKind::redirect, "take the next plan", "{}"}; };
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, refuse));
  const std::optional<Found> found = KernelCache(disk, options_for(log)).find(key);
  REQUIRE(found);
  CHECK(found->kind == EntryKind::redirect);
  CHECK(found->payload == "take the next plan");
}

TEST_CASE("sixteen threads, one key, one make; different keys do not wait for each other") {
  MemoryFileSystem disk;
  RecordingLog log;
  const std::string directory = GENERATE("/c", "");  // without one, no lock file helps
  CacheOptions options = options_for(log, directory);
  options.wanted = !directory.empty();
  KernelCache cache(disk, options);
  Maker maker;
  maker.takes = std::chrono::milliseconds(50);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      const Result<Found> found = cache.find_or_make(key, maker.function());
      if (found && found->payload == "cubin") ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 16);
  CHECK(maker.calls == 1);

  // Each make waits until the other has begun: this ends only if they run side by side.
  std::atomic<int> begun{0};
  const auto meet = [&]() -> Result<Made> {
    ++begun;
    for (int i = 0; i < 5000 && begun < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return begun == 2 ? Result<Made>(Made{EntryKind::artifact, "x", ""}) : Result<Made>(user_error("alone"));
  };
  std::thread other([&] { (void)cache.find_or_make(ArtifactKey("b", ""), meet); });
  CHECK(cache.find_or_make(ArtifactKey("a", ""), meet));
  other.join();
}

TEST_CASE("every make, hit and miss has a line with its time and its reason") {
  MemoryFileSystem disk;
  std::vector<std::string> lines;
  CacheOptions options;
  options.directory = "/c";
  options.explain_misses = true;
  options.log = [&](LogLevel level, std::string_view text) {
    if (level == LogLevel::info) lines.emplace_back(text);
  };
  Maker maker;
  const auto request = [](const std::string& flag) {
    return ArtifactRecord().add("flag", flag).add("source", "x").take();
  };
  const auto says = [&](const ArtifactKey& wanted, const std::string& begin, const std::string& part) {
    lines.clear();
    REQUIRE(KernelCache(disk, options).find_or_make(wanted, maker.function()));
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find(begin) == 0);
    CHECK(lines[0].find(" ms, ") != std::string::npos);
    CHECK(lines[0].find(part) != std::string::npos);
  };
  const ArtifactKey known(request("-a"), "t", "k");
  says(known, "kernel 'k': cache miss in ", "absent");
  says(known, "kernel 'k': cache hit in ", "/c/" + known.name());
  says(ArtifactKey(request("-b"), "t", "k"), "kernel 'k': cache miss in ", "differs in flag");
  says(ArtifactKey(request("-a"), "another", "k"), "kernel 'k': cache miss in ", "differs in toolchain");
  disk.node("/c/" + known.name()).bytes[60] ^= 1;
  says(known, "kernel 'k': cache miss in ", "damaged: its checksum does not fit");
  disk.node("/c/" + known.name()).status.mode = 0666;
  says(known, "kernel 'k': cache miss in ", "untrusted: others can write to it (mode 666)");
}

TEST_CASE("an error of the maker is told to all and remembered, one of the machine is tried again") {
  MemoryFileSystem disk;
  RecordingLog log;
  KernelCache cache(disk, options_for(log));
  int calls = 0;
  for (int i = 0; i < 2; ++i) {
    const Result<Found> found = cache.find_or_make(key, [&]() -> Result<Made> {
      ++calls;
      return user_error("bad kernel");
    });
    REQUIRE(!found);
    CHECK(found.error().message == "bad kernel");
  }
  CHECK(calls == 1);
  CHECK(!cache.find(key));
  for (int i = 0; i < 2; ++i) {
    CHECK(!cache.find_or_make(ArtifactKey("b", ""), [&]() -> Result<Made> {
      ++calls;
      return environment_error("no compiler");
    }));
  }
  CHECK(calls == 3);
  CHECK(disk.list("/c")->empty());
}

TEST_CASE("an exception of the maker passes through and frees the key") {
  MemoryFileSystem disk;
  RecordingLog log;
  KernelCache cache(disk, options_for(log));
  Maker maker;
  CHECK_THROWS_AS(cache.find_or_make(key, []() -> Result<Made> { throw InternalError("bug"); }), InternalError);
  CHECK(cache.find_or_make(key, maker.function()));
}

TEST_CASE("whatever byte is damaged, the entry is a miss with one warning, is set aside, and is made again") {
  MemoryFileSystem disk;
  RecordingLog unused;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(unused)).find_or_make(key, maker.function()));
  const std::string path = "/c/" + key.name(), good = *disk.read(path);
  for (size_t at = 0; at <= good.size(); ++at) {
    std::string bad = good;
    if (at < good.size()) {
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
    } else {
      bad.resize(good.size() / 2);
    }
    disk.put(path, bad);
    RecordingLog log;
    KernelCache cache(disk, options_for(log));
    maker.calls = 0;
    const Result<Found> found = cache.find_or_make(key, maker.function());
    REQUIRE(found);
    REQUIRE(found->from == Source::made);
    REQUIRE(maker.calls == 1);
    REQUIRE(log.warnings().size() == 1);
    REQUIRE(log.warnings()[0].find(path) != std::string::npos);
    REQUIRE(cache.counts().damaged == 1);
    REQUIRE(*disk.read(path + ".bad") == bad);
    REQUIRE(*disk.read(path) == good);  // healed
  }
}

TEST_CASE("an entry whose content its maker cannot use is damage like any other") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, maker.function()));
  CacheOptions options = options_for(log);
  std::string unusable = "cubin";
  options.check = [&](const EntryView& entry) {
    return entry.payload == unusable ? ContentVerdict{EntryState::damaged, "it is odd"} : ContentVerdict();
  };
  maker.payload = "new cubin";
  {
    KernelCache cache(disk, options);
    CHECK(cache.explain(key).lookups.front().problem == "it is odd");
    REQUIRE(
        cache.visit("", [](const ListedEntry& entry) { CHECK(entry.found.miss == CacheDirectory::Miss::damaged); }));
    CHECK(!cache.find(key));
    CHECK(!cache.find_any_toolchain(key));
    CHECK(cache.find_or_make(key, maker.function())->payload == "new cubin");
  }
  REQUIRE(log.warnings().size() == 1);
  CHECK(log.warnings()[0].find("it is odd") != std::string::npos);
  CHECK(disk.exists("/c/" + key.name() + ".bad"));
  KernelCache next(disk, options);
  CHECK(next.find_or_make(key, maker.function())->from == Source::disk);
  CHECK(maker.calls == 2);
  // prune takes what cannot be used, and nothing else.
  unusable = "new cubin";
  REQUIRE(next.find_or_make(ArtifactKey("good", "t"), []() -> Result<Made> { return Made{}; }));
  const Result<Tidied> tidied = next.prune(0, false);
  REQUIRE(tidied);
  CHECK(tidied->removed_bad == 1);
  CHECK(tidied->entries == 1);
}

TEST_CASE("an entry whose content is of another version is a miss without a warning, and is written over") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, maker.function()));
  CacheOptions options = options_for(log);
  options.check = [](const EntryView& entry) {
    return entry.payload == "cubin" ? ContentVerdict{EntryState::other_version, ""} : ContentVerdict();
  };
  maker.payload = "new cubin";
  KernelCache cache(disk, options);
  REQUIRE(cache.visit(
      "", [](const ListedEntry& entry) { CHECK(entry.found.miss == CacheDirectory::Miss::other_version); }));
  CHECK(cache.prune(0, false)->entries == 1);  // it is of use to whoever wrote it
  CHECK(!cache.find(key));
  CHECK(!cache.find_any_toolchain(key));
  CHECK(cache.find_or_make(key, maker.function())->payload == "new cubin");
  CHECK(log.warnings().empty());
  CHECK(cache.counts().damaged == 0);
  CHECK(!disk.exists("/c/" + key.name() + ".bad"));
  CHECK(KernelCache(disk, options).find_or_make(key, maker.function())->from == Source::disk);
}

TEST_CASE("a directory in an entry's place is set aside") {
  const ScratchDirectory scratch;
  RecordingLog log;
  Maker maker;
  FileSystem& disk = real_file_system();
  const std::string path = scratch / "c/" + key.name();
  REQUIRE(disk.make_directories(path + "/full"));
  REQUIRE(disk.write_atomically(path + ".bad", "from before"));
  CHECK(KernelCache(disk, options_for(log, scratch / "c")).find_or_make(key, maker.function())->from == Source::made);
  CHECK(KernelCache(disk, options_for(log, scratch / "c")).find_or_make(key, maker.function())->from == Source::disk);
  CHECK(disk.status(path + ".bad").is_directory);
  CHECK(log.warnings().size() == 1);
}

TEST_CASE("whoever only looks makes no directory, and is told of a refusal in place of the log") {
  MemoryFileSystem disk;
  RecordingLog log;
  CacheOptions options = options_for(log);
  options.create = false;
  {
    KernelCache cache(disk, options);
    CHECK(cache.own_directory());
    CHECK(cache.places().empty());
    CHECK(cache.prune(0, true)->removed_entries == 0);
  }
  CHECK(!disk.exists("/c"));
  REQUIRE(disk.make_directories("/c"));
  CHECK(KernelCache(disk, options).places().front().writable);
  disk.node("/c").status.mode = 0777;
  KernelCache refused(disk, options);
  CHECK(refused.own_directory().error().message.find("others can write") != std::string::npos);
  CHECK(log.warnings().empty());
}

TEST_CASE("find warns of damage and leaves the file to the next make") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  disk.put("/c/" + key.name(), "rubbish");
  KernelCache cache(disk, options_for(log));
  CHECK(!cache.find(key));
  CHECK(!cache.find(key));
  CHECK(log.warnings().size() == 1);
  CHECK(disk.exists("/c/" + key.name()));
}

TEST_CASE("a symbolic link in an entry's place is not followed") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, maker.function()));
  disk.node("/c/" + key.name()).status.is_symlink = true;
  CHECK(KernelCache(disk, options_for(log)).find_or_make(key, maker.function())->from == Source::made);
  CHECK(log.warnings().size() == 1);
}

TEST_CASE("read-only directories come first and are never written") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  maker.payload = "prebuilt";
  REQUIRE(KernelCache(disk, options_for(log, "/r")).find_or_make(key, maker.function()));
  const ArtifactKey bad_key("bad", "t");
  disk.put("/r/" + bad_key.name(), "rubbish");
  const size_t files = disk.list("/r")->size();

  maker.payload = "ours";
  maker.calls = 0;
  CacheOptions options = options_for(log);
  options.read_directories = {"/missing", "/r"};
  KernelCache cache(disk, options);
  CHECK(cache.find_or_make(key, maker.function())->payload == "prebuilt");
  CHECK(maker.calls == 0);
  CHECK(cache.find_or_make(bad_key, maker.function())->payload == "ours");
  CHECK(disk.list("/r")->size() == files);
  CHECK(*disk.read("/r/" + bad_key.name()) == "rubbish");
  CHECK(disk.exists("/c/" + bad_key.name()));
  REQUIRE(log.warnings().size() == 2);  // the missing directory, the damaged entry
  CHECK(log.warnings()[0].find("EPIFUSE_CACHE_READ") != std::string::npos);
}

TEST_CASE("a full disk") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  disk.good_writes = 0;
  RecordingLog log;
  check_goes_on_with_one_warning(disk, options_for(log), log, "No space left on device");
}

TEST_CASE("a directory that others can write to") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/c"));
  disk.node("/c").status.mode = 0777;
  disk.put("/c/" + ArtifactKey("one", "t").name(), "planted");
  RecordingLog log;
  check_goes_on_with_one_warning(disk, options_for(log), log, "others can write");
  CHECK(*disk.read("/c/" + ArtifactKey("one", "t").name()) == "planted");
}

TEST_CASE("a directory that is a symbolic link") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/c"));
  disk.node("/c").status.is_symlink = true;
  RecordingLog log;
  check_goes_on_with_one_warning(disk, options_for(log), log, "symbolic link");
}

TEST_CASE("a file in the directory's place") {
  RecordingLog log;
  CacheOptions options = options_for(log, "/dev/null/cache");
  check_goes_on_with_one_warning(real_file_system(), options, log, "/dev/null");
}

TEST_CASE("no place at all, and memory only by choice") {
  MemoryFileSystem disk;
  RecordingLog log;
  check_goes_on_with_one_warning(disk, options_for(log, ""), log, "HOME");

  RecordingLog quiet;
  CacheOptions options = options_for(quiet, "");
  options.wanted = false;
  Maker maker;
  KernelCache cache(disk, options);
  CHECK(cache.find_or_make(key, maker.function())->from == Source::made);
  CHECK(cache.find_or_make(key, maker.function())->from == Source::memory);
  CHECK(quiet.warnings().empty());
  CHECK(disk.nodes().empty());
}

TEST_CASE("a disk without locks, one that refuses renames, one that goes stale: the run goes on") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  RecordingLog log;
  Maker maker;
  disk.good_locks = 0;
  CHECK(KernelCache(disk, options_for(log)).find_or_make(key, maker.function())->from == Source::made);
  CHECK(log.warnings().empty());
  CHECK(memory.exists("/c/" + key.name()));

  disk.good_renames = 0;  // the damaged entry cannot be set aside, and is replaced all the same
  memory.node("/c/" + key.name()).bytes[50] ^= 1;
  CHECK(KernelCache(disk, options_for(log)).find_or_make(key, maker.function())->from == Source::made);
  CHECK(KernelCache(disk, options_for(log)).find(key)->from == Source::disk);
  CHECK(log.warnings().size() == 1);

  disk.good_reads = 0;
  CHECK(KernelCache(disk, options_for(log)).find_or_make(key, maker.function())->from == Source::made);
}

TEST_CASE("an entry that appears while waiting is used at once") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  REQUIRE(disk.make_directories("/c"));
  const auto held = disk.try_lock("/c/" + key.name() + ".lock");
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CacheDirectory directory(disk, "/c", CacheDirectory::Use::writable);
    (void)directory.publish(key, {EntryKind::artifact, key.request(), key.toolchain(), "{}", "theirs"});
  });
  const Result<Found> found = KernelCache(disk, options_for(log)).find_or_make(key, maker.function());
  holder.join();
  CHECK(found->payload == "theirs");
  CHECK(maker.calls == 0);
}

TEST_CASE("without a toolchain, an artifact of any toolchain is found") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  REQUIRE(KernelCache(disk, options_for(log)).find_or_make(key, maker.function()));
  KernelCache cache(disk, options_for(log));
  const ArtifactKey without("request", "");
  CHECK(!cache.find(without));
  const std::optional<Found> found = cache.find_any_toolchain(without);
  REQUIRE(found);
  CHECK(found->toolchain == "toolchain");
  CHECK(!cache.find_any_toolchain(ArtifactKey("another", "")));
}

TEST_CASE("good and damaged entries are shown and nothing else") {
  MemoryFileSystem disk;
  RecordingLog log;
  Maker maker;
  KernelCache cache(disk, options_for(log));
  REQUIRE(cache.find_or_make(key, maker.function()));
  const ArtifactKey bad("bad", "");
  disk.put("/c/" + bad.name(), "rubbish");
  disk.put("/c/" + key.name() + ".bad", "x");
  disk.put("/c/README", "x");
  int seen = 0;
  const auto look = [&](const ListedEntry& entry) {
    ++seen;
    const bool good = entry.found.path == "/c/" + key.name();
    CHECK(entry.found.miss == (good ? CacheDirectory::Miss::none : CacheDirectory::Miss::damaged));
    CHECK(entry.found.entry.metadata == (good ? R"({"kernel":"k"})" : ""));
    CHECK(entry.found.status.size == disk.status(entry.found.path).size);
    CHECK(entry.found.status.modified > 0);
    CHECK(entry.writable);
  };
  REQUIRE(cache.visit("", look));
  CHECK(seen == 2);
  REQUIRE(cache.visit(bad.name().substr(0, 8), look));
  CHECK(seen == 3);
}
