// A disk that fails in every way at every place: the caller gets the right artifact, one warning at most, and nothing
// half written is ever read as an entry.
#include "cache/kernel_cache.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/recording_log.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace epifuse::test;

namespace {

const ArtifactKey key("request", "toolchain");

CacheOptions options_for(RecordingLog& log) {
  CacheOptions options;
  options.directory = "/c";
  options.log = log.sink();
  return options;
}

struct Run {
  Source from;
  std::vector<std::string> warnings;
};

// A new process that wants the key.
Run run(FileSystem& disk) {
  RecordingLog log;
  KernelCache cache(disk, options_for(log));
  const Result<Found> found = cache.find_or_make(key, []() -> Result<Made> {
    return Made{EntryKind::artifact, "cubin", "{}"};
  });
  REQUIRE(found);
  REQUIRE(found->payload == "cubin");
  return {found->from, log.warnings()};
}

bool mentions(const Run& run, const std::string& text) {
  return run.warnings.size() == 1 && run.warnings[0].find(text) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "B119 whichever call fails from some point on, the artifact is made and right, with one warning at most for the "
    "disk") {
  using Limit = std::atomic<int> FaultyFileSystem::*;
  constexpr Limit limits[] = {&FaultyFileSystem::good_reads, &FaultyFileSystem::good_writes,
                              &FaultyFileSystem::good_renames, &FaultyFileSystem::good_locks,
                              &FaultyFileSystem::good_lists};
  for (const Limit limit : limits) {
    for (const bool damaged_before : {false, true}) {
      for (int good = 0; good < 6; ++good) {
        MemoryFileSystem memory;
        if (damaged_before) memory.put("/c/" + key.name(), "rubbish");
        FaultyFileSystem disk(memory);
        disk.*limit = good;
        REQUIRE(run(disk).warnings.size() <= (damaged_before ? 2 : 1));
        disk.*limit = INT_MAX;
        // Whatever was left behind, the next process has no trouble with it.
        REQUIRE(run(disk).warnings.size() <= (damaged_before ? 1 : 0));
        REQUIRE(run(disk).from == Source::disk);
      }
    }
  }
}

TEST_CASE("B119 a disk that cannot be written is told with the system's reason") {
  for (const std::string reason : {"No space left on device", "Read-only file system", "Permission denied",
                                   "Disk quota exceeded", "Stale file handle"}) {
    MemoryFileSystem memory;
    FaultyFileSystem disk(memory);
    disk.good_writes = 0;
    disk.write_problem = reason;
    const Run told = run(disk);
    CHECK(told.from == Source::made);
    CHECK(mentions(told, reason));
    CHECK(mentions(told, "EPIFUSE_CACHE_DIR"));
  }
}

TEST_CASE("an entry that cannot be read is a miss, stays where it is, and is made anew") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  REQUIRE(run(disk).from == Source::made);
  disk.good_reads = 0;
  const Run unreadable = run(disk);
  CHECK(unreadable.from == Source::made);
  CHECK(mentions(unreadable, "Stale file handle"));
  CHECK(!memory.exists("/c/" + key.name() + ".bad"));  // it may be whole
  disk.good_reads = INT_MAX;
  CHECK(run(disk).from == Source::disk);
}

TEST_CASE("a read that stops short at any byte is a miss and never another entry") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  REQUIRE(run(disk).from == Source::made);
  const std::string good = *memory.read("/c/" + key.name());
  for (size_t length = 0; length < good.size(); ++length) {
    disk.longest_read = length;
    const Run cut = run(disk);
    REQUIRE(cut.from == Source::made);
    REQUIRE(cut.warnings.size() == 1);
    disk.longest_read = SIZE_MAX;
    memory.put("/c/" + key.name(), good);
  }
}

TEST_CASE("B109 the winner's file that stays invisible does not matter: everybody runs what they made") {
  // Another machine's entry is there when we publish, and is never seen when we look.
  class Invisible : public FaultyFileSystem {
   public:
    using FaultyFileSystem::FaultyFileSystem;
    Result<Content> read_content(const std::string&) override { return Content(); }
    FileStatus status(const std::string& path) override {
      const FileStatus real = FaultyFileSystem::status(path);
      return real.is_directory ? real : FileStatus();
    }
  };
  MemoryFileSystem memory;
  REQUIRE(run(memory).from == Source::made);
  Invisible disk(memory);
  const Run loser = run(disk);
  CHECK(loser.from == Source::made);
  CHECK(loser.warnings.empty());
  CHECK(run(memory).from == Source::disk);
}

TEST_CASE("a directory that vanishes under a running process costs nothing but the entries") {
  MemoryFileSystem memory;
  RecordingLog log;
  KernelCache cache(memory, options_for(log));
  const auto make = []() -> Result<Made> { return Made{EntryKind::artifact, "cubin", "{}"}; };
  REQUIRE(cache.find_or_make(key, make));
  memory.nodes().clear();
  for (const std::string request : {"a", "b", "c"}) {
    const Result<Found> found = cache.find_or_make(ArtifactKey(request, "t"), make);
    REQUIRE(found);
    CHECK(found->payload == "cubin");
  }
  CHECK(cache.find_or_make(key, make)->from == Source::memory);
  CHECK(log.warnings().size() == 1);
}

TEST_CASE("an entry of another format version is not used, not called damaged, and replaced") {
  MemoryFileSystem memory;
  REQUIRE(run(memory).from == Source::made);
  std::string& bytes = memory.node("/c/" + key.name()).bytes;
  bytes[8] = 77;
  bytes.resize(bytes.size() - 16);
  const Digest checksum = digest(bytes);
  for (const uint64_t half : {checksum.high, checksum.low})
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(half >> (8 * i)));
  const Run told = run(memory);
  CHECK(told.from == Source::made);
  CHECK(told.warnings.empty());
  CHECK(run(memory).from == Source::disk);
}
