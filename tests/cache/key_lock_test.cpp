// Waiting for the turn: without end while a holder lives, with an end where nobody can tell, and never silently.
#include "cache/key_lock.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/recording_log.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace epifuse::test;
using namespace std::chrono_literals;

namespace {

constexpr auto entry = "/c/entry";

const auto nothing_appears = [] { return false; };

struct Disk {
  Disk() { REQUIRE(memory.make_directories("/c")); }
  MemoryFileSystem memory;
  FaultyFileSystem faulty{memory};
};

}  // namespace

TEST_CASE("a lock is waited for beyond every limit while its holder lives, with a line now and then") {
  Disk disk;
  RecordingLog log;
  const Patience patience{.progress_after = 10ms, .progress_every = 20ms, .without_locks = 5ms};
  auto held = disk.memory.try_lock(std::string(entry) + ".lock");
  REQUIRE(held);
  int tries = 0;
  const auto wait = [&] {
    if (log.warnings().size() >= 3) held->reset();  // by then `without_locks` has long passed
    ++tries;
    return false;
  };
  const std::unique_ptr<FileLock> lock = wait_for_lock(disk.memory, entry, patience, log.sink(), wait);
  CHECK(lock);
  CHECK(tries > 1);
  REQUIRE(log.warnings().size() >= 3);
  for (const std::string& line : log.warnings()) {
    CHECK(line.find("waiting for another process") != std::string::npos);
    CHECK(line.find("/c/entry.lock") != std::string::npos);
  }
}

TEST_CASE("nobody is waited for where a claim is no file") {
  Disk disk;
  disk.faulty.good_locks = 0;
  const std::string claim = std::string(entry) + ".claim";
  disk.memory.put(claim, "");
  disk.memory.node(claim).status.is_directory = true;
  const auto held = wait_for_lock(disk.faulty, entry, {}, nullptr, nothing_appears);
  CHECK(held);  // it could be removed
  const ScratchDirectory scratch;
  for (const char* suffix : {".lock", ".claim"})
    REQUIRE(real_file_system().make_directories(scratch / ("entry" + std::string(suffix) + "/full")));
  RecordingLog log;
  CHECK(!wait_for_lock(real_file_system(), scratch / "entry", {}, log.sink(), nothing_appears));
  REQUIRE(log.warnings().size() == 1);
  CHECK(log.warnings()[0].find("cannot be removed") != std::string::npos);
}

TEST_CASE("what somebody else has made ends the waiting") {
  Disk disk;
  const auto held = disk.memory.try_lock(std::string(entry) + ".lock");
  int asked = 0;
  CHECK(!wait_for_lock(disk.memory, entry, {}, nullptr, [&] { return ++asked == 3; }));
  CHECK(asked == 3);
}

TEST_CASE("where a disk knows no locks, a claim excludes the others and goes with its owner") {
  Disk disk;
  disk.faulty.good_locks = 0;
  RecordingLog log;
  {
    const auto first = wait_for_lock(disk.faulty, entry, {}, log.sink(), nothing_appears);
    REQUIRE(first);
    CHECK(disk.memory.exists("/c/entry.claim"));
    CHECK(!wait_for_lock(disk.faulty, entry, {}, log.sink(), [] { return true; }));
    CHECK(disk.memory.exists("/c/entry.claim"));
  }
  CHECK(!disk.memory.exists("/c/entry.claim"));
  CHECK(log.warnings().empty());
}

TEST_CASE("a claim whose owner was killed is honoured for a while and then removed, with a word") {
  Disk disk;
  disk.faulty.good_locks = 0;
  RecordingLog log;
  disk.memory.put("/c/entry.claim", "");
  CHECK(!wait_for_lock(disk.faulty, entry, {.without_locks = 20ms}, log.sink(), nothing_appears));
  CHECK(!disk.memory.exists("/c/entry.claim"));
  REQUIRE(log.warnings().size() == 1);
  CHECK(log.warnings()[0].find("/c/entry.claim") != std::string::npos);
}

TEST_CASE("a full or read-only disk makes nobody wait") {
  Disk disk;
  disk.faulty.good_locks = 0;
  disk.faulty.good_writes = 0;
  CHECK(!wait_for_lock(disk.faulty, entry, {}, nullptr, nothing_appears));
}
