// What goes when a directory is too large, what goes anyway, and what must stay.
#include "cache/housekeeping.h"

#include <ctime>
#include <fmt/format.h>

#include "cache/kernel_cache.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/recording_log.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace epifuse::test;

namespace {

constexpr int64_t now = 2'000'000'000, hour = 3600;

std::string entry_name(int i) { return fmt::format("{:032x}.{:032x}", i, 7); }

// A directory with files of any age.
struct Directory {
  Directory() : faulty(disk) { REQUIRE(disk.make_directories("/c")); }

  void put(const std::string& name, int64_t age, size_t bytes = 512) {
    disk.put("/c/" + name, std::string(bytes, 'x'));
    disk.node("/c/" + name).status.modified = now - age;
  }
  bool has(const std::string& name) { return disk.exists("/c/" + name); }
  Tidied tidy(Housekeeping wanted) {
    wanted.now = now;
    const Result<Tidied> tidied = cache::tidy(faulty, "/c", wanted);
    REQUIRE(tidied);
    return *tidied;
  }

  MemoryFileSystem disk;
  FaultyFileSystem faulty;
};

}  // namespace

TEST_CASE("the least recently used entries go until a tenth of the room is free, by blocks") {
  Directory directory;
  // The first is the youngest; each takes two blocks of 512 bytes, though it has 513.
  for (int i = 0; i < 10; ++i) directory.put(entry_name(i), i * hour, 513);
  const Tidied nothing = directory.tidy({.most_bytes = 10240});
  CHECK(nothing.entries == 10);
  CHECK(nothing.bytes == 10240);
  CHECK(nothing.removed_entries == 0);
  const Tidied some = directory.tidy({.most_bytes = 10239});
  CHECK(some.removed_entries == 2);
  CHECK(some.removed_bytes == 2048);
  CHECK(some.bytes == 8192);
  for (int i = 0; i < 10; ++i) CHECK(directory.has(entry_name(i)) == (i < 8));
  CHECK(directory.tidy({.most_bytes = 5000}).entries == 4);
  for (int i = 0; i < 10; ++i) CHECK(directory.has(entry_name(i)) == (i < 4));
  CHECK(directory.tidy({.most_bytes = 0}).entries == 4);
}

TEST_CASE("an entry that was just made stays even when it alone is too large") {
  Directory directory;
  directory.put(entry_name(0), 9 * hour, 100000);
  directory.put(entry_name(1), 0);
  const Tidied tidied = directory.tidy({.most_bytes = 1000, .just_made = entry_name(0)});
  CHECK(tidied.entries == 1);
  CHECK(directory.has(entry_name(0)));
}

TEST_CASE("files set aside go first, and by themselves after two weeks") {
  Directory directory;
  directory.put(entry_name(0), 9 * hour);
  directory.put(entry_name(1) + ".bad", hour, 512);
  directory.put(entry_name(2) + ".bad", 15 * 24 * hour);
  CHECK(directory.tidy({}).removed_bad == 1);
  CHECK(!directory.has(entry_name(2) + ".bad"));
  CHECK(directory.tidy({.most_bytes = 600}).removed_bad == 1);
  CHECK(directory.has(entry_name(0)));
}

TEST_CASE("leftovers of killed processes go after an hour, or at once when asked, and never while they are held") {
  Directory directory;
  const std::string entry = entry_name(0);
  const auto plant = [&] {
    for (const char* suffix : {".tmp-17-0", ".lock", ".claim"}) {
      directory.put(entry_name(1) + suffix, 2 * hour);
      directory.put(entry_name(2) + suffix, 10);
    }
  };
  plant();
  const auto held = directory.disk.try_lock("/c/" + entry_name(1) + ".lock");
  REQUIRE(*held);
  CHECK(directory.tidy({}).removed_leftovers == 2);
  CHECK(!directory.has(entry_name(1) + ".tmp-17-0"));
  CHECK(!directory.has(entry_name(1) + ".claim"));
  CHECK(directory.has(entry_name(1) + ".lock"));
  for (const char* suffix : {".tmp-17-0", ".lock", ".claim"}) CHECK(directory.has(entry_name(2) + suffix));

  // Claims too, though nobody can tell whether their owners live: they save work, and no more.
  CHECK(directory.tidy({.all_leftovers = true}).removed_leftovers == 3);
  CHECK(directory.has(entry_name(1) + ".lock"));
  CHECK(!directory.has(entry_name(2) + ".claim"));

  // Without locks only age tells.
  plant();
  directory.faulty.good_locks = 0;
  CHECK(directory.tidy({.all_leftovers = true}).removed_leftovers == 4);
  CHECK(directory.has(entry_name(2) + ".tmp-17-0"));
}

TEST_CASE("what is no file in the place of a lock or a claim is nobody's") {
  Directory directory;
  for (const char* suffix : {".lock", ".claim", ".tmp-17-0"}) {
    directory.put(entry_name(1) + suffix, 0);
    directory.disk.node("/c/" + entry_name(1) + suffix).status.is_symlink = true;
    directory.put(entry_name(2) + suffix, 0);
    directory.disk.node("/c/" + entry_name(2) + suffix).status.is_directory = true;
  }
  directory.faulty.good_locks = 0;
  CHECK(directory.tidy({}).removed_leftovers == 0);
  CHECK(directory.tidy({.all_leftovers = true}).removed_leftovers == 6);
}

TEST_CASE("a time in the future is the oldest of all, beyond what clocks may differ") {
  Directory directory;
  for (const char* suffix : {".claim", ".lock", ".tmp-17-0"}) directory.put(entry_name(3) + suffix, -2 * hour);
  directory.put(entry_name(1) + ".claim", -hour / 2);
  CHECK(directory.tidy({}).removed_leftovers == 3);
  CHECK(directory.has(entry_name(1) + ".claim"));
  directory.put(entry_name(4), -9999 * hour);
  directory.put(entry_name(5), -hour / 2);
  directory.put(entry_name(6), 99 * hour);
  CHECK(directory.tidy({.most_bytes = 1200}).removed_entries == 1);
  CHECK(!directory.has(entry_name(4)));
}

TEST_CASE("what cannot be removed is counted, and the first reason kept") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  const std::string entry = entry_name(1), bad = entry_name(2) + ".bad";
  for (const std::string& name : {entry, bad}) REQUIRE(disk.make_directories(scratch / name + "/full"));
  REQUIRE(disk.make_directories(scratch / entry_name(3)));  // empty: it goes
  REQUIRE(disk.write_atomically(scratch / entry_name(4), "x"));
  const Result<Tidied> tidied =
      tidy(disk, scratch.path(), {.now = std::time(nullptr), .all_leftovers = true, .all_entries = true});
  REQUIRE(tidied);
  CHECK(tidied->removed_entries == 2);
  CHECK(tidied->entries == 1);
  CHECK(tidied->not_removed == 2);
  CHECK(tidied->problem.find("not empty") != std::string::npos);
}

TEST_CASE("other files stay whatever is asked, and notes go with the entries") {
  Directory directory;
  directory.put("README", 999 * hour);
  directory.put("notes.tmp-17-0", 999 * hour);
  directory.put("toolchain." + std::string(32, '0'), 9 * hour);
  directory.put(entry_name(0), 0);
  directory.put(entry_name(1) + ".bad", 0);
  CHECK(directory.tidy({.most_bytes = 1, .all_leftovers = true}).entries == 0);
  CHECK(directory.has("toolchain." + std::string(32, '0')));
  directory.put(entry_name(0), 0);
  const Tidied cleared = directory.tidy({.all_leftovers = true, .all_entries = true});
  CHECK(cleared.entries == 0);
  CHECK(cleared.bytes == 0);
  CHECK(*directory.disk.list("/c") == std::vector<std::string>{"README", "notes.tmp-17-0"});
}

TEST_CASE("a cache never takes more room than it may") {
  MemoryFileSystem memory;
  RecordingLog log;
  CacheOptions options;
  options.directory = "/c";
  options.most_bytes = 64 * 1024;
  options.log = log.sink();
  KernelCache cache(memory, options);
  uint64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    const auto make = [&]() -> Result<Made> { return Made{EntryKind::artifact, std::string(3000, 'x'), "{}"}; };
    REQUIRE(cache.find_or_make(ArtifactKey("request " + std::to_string(i), "t"), make));
    uint64_t bytes = 0;
    const Result<std::vector<std::string>> names = memory.list("/c");
    for (const std::string& name : *names) bytes += memory.status("/c/" + name).allocated;
    most = std::max(most, bytes);
  }
  CHECK(most <= options.most_bytes + 4096);
  CHECK(cache.counts().evicted > 150);
  CHECK(cache.find(ArtifactKey("request 199", "t")));
  CHECK(log.warnings().empty());
  // A new process that makes one kernel finds it too large already.
  options.most_bytes = 8 * 1024;
  KernelCache next(memory, options);
  REQUIRE(next.find_or_make(ArtifactKey("one more", "t"), []() -> Result<Made> { return Made{}; }));
  int left = 0;
  REQUIRE(next.visit("", [&](const ListedEntry&) { ++left; }));
  CHECK(left <= 3);
  // One that is larger than all the room is not stored.
  options.most_bytes = 1;
  KernelCache none(memory, options);
  for (const char* name : {"too large", "another"})
    REQUIRE(none.find_or_make(ArtifactKey(name, "t"), []() -> Result<Made> { return Made{}; })->payload.view().empty());
  CHECK(!memory.exists("/c/" + ArtifactKey("too large", "t").name()));
  REQUIRE(log.warnings().size() == 1);
  CHECK(log.warnings()[0].find("EPIFUSE_CACHE_SIZE") != std::string::npos);
}

TEST_CASE("a use keeps an entry from being removed, however long ago it was made") {
  MemoryFileSystem memory;
  CacheOptions options;
  options.directory = "/c";
  const auto make = []() -> Result<Made> { return Made{EntryKind::artifact, std::string(3000, 'x'), "{}"}; };
  const ArtifactKey used("used", "t"), unused("unused", "t");
  REQUIRE(KernelCache(memory, options).find_or_make(used, make));
  REQUIRE(KernelCache(memory, options).find_or_make(unused, make));
  memory.node("/c/" + used.name()).status.modified = 1000;
  memory.node("/c/" + unused.name()).status.modified = 2000;
  REQUIRE(KernelCache(memory, options).find(used));
  REQUIRE(KernelCache(memory, options).prune(4096, false));
  CHECK(memory.exists("/c/" + used.name()));
  CHECK(!memory.exists("/c/" + unused.name()));
  // A clock that was wrong for a while: the use brings the time back.
  int64_t& stamp = memory.node("/c/" + used.name()).status.modified;
  stamp = std::time(nullptr) + 9999 * hour;
  REQUIRE(KernelCache(memory, options).find(used));
  CHECK(stamp < std::time(nullptr) + hour);
}
