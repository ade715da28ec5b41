// Twenty processes of four threads on an empty directory, some of them killed at any moment: whatever happens, the
// others end with the right artifacts, each is made once, and nothing is left behind.
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "tests/cache/worker_processes.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace epifuse::test;
using namespace std::chrono_literals;

namespace {

constexpr int processes = 20, threads = 4, keys = 30;

ArtifactKey key_of(int i) { return ArtifactKey("request " + std::to_string(i), "toolchain"); }
std::string payload_of(const ArtifactKey& key) { return std::string(20000, 'c') + key.name(); }

CacheOptions options_for(const std::string& directory) {
  CacheOptions options;
  options.directory = directory;
  return options;
}

// One of the processes: four threads that each want all keys, in orders of their own.
bool work(const std::string& directory, const EventLog& log, unsigned seed) {
  KernelCache cache(real_file_system(), options_for(directory));
  std::atomic<bool> right{true};
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      std::vector<int> order(keys);
      for (int i = 0; i < keys; ++i) order[static_cast<size_t>(i)] = i;
      std::shuffle(order.begin(), order.end(), std::mt19937(seed * threads + static_cast<unsigned>(thread)));
      for (const int i : order) {
        const ArtifactKey key = key_of(i);
        const Result<Found> found = cache.find_or_make(key, [&]() -> Result<Made> {
          log.add("start", key.first());
          std::this_thread::sleep_for(1ms);
          log.add("made", key.first());
          return Made{EntryKind::artifact, payload_of(key), "{}"};
        });
        if (!found || found->payload != payload_of(key)) right = false;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  return right;
}

// All entries are there, whole, and nothing else.
void check_directory(const std::string& directory) {
  KernelCache cache(real_file_system(), options_for(directory));
  REQUIRE(cache.prune(0, false));
  const Result<std::vector<std::string>> names = real_file_system().list(directory);
  REQUIRE(names);
  CHECK(names->size() == keys);
  for (int i = 0; i < keys; ++i) {
    const std::optional<Found> found = cache.find(key_of(i));
    REQUIRE(found);
    REQUIRE(found->payload == payload_of(key_of(i)));
  }
}

// Runs the processes; `moments` says after how many microseconds which of them is killed. The number of makes that a
// kill cut off.
int run(unsigned seed, const std::multimap<int, int>& moments) {
  const ScratchDirectory scratch;
  const EventLog log(scratch / "log");
  const std::string directory = scratch / "cache";
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(
        start_process([&] { return work(directory, log, seed * processes + static_cast<unsigned>(i)); }));
  }
  std::set<pid_t> killed;
  int now = 0;
  // Moments count from the first make on, however long processes take to start.
  for (int waited = 0; !moments.empty() && log.events().empty() && waited < 10000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const auto& [moment, process] : moments) {
    std::this_thread::sleep_for(std::chrono::microseconds(moment - now));
    now = moment;
    ::kill(children[static_cast<size_t>(process)], SIGKILL);
    killed.insert(children[static_cast<size_t>(process)]);
  }
  for (const pid_t child : children) {
    const bool good = succeeded(child);
    if (good) killed.erase(child);  // the kill came too late
    CHECK((good || killed.contains(child)));
  }
  const Makes makes = makes_in(log, killed);
  CHECK(makes.one_at_a_time);
  for (int i = 0; i < keys; ++i) {
    const int made_by_the_living = log.count("made", key_of(i).first(), killed);
    CHECK((made_by_the_living == 1 || (made_by_the_living == 0 && !killed.empty())));
  }
  check_directory(directory);
  return makes.cut_off;
}

}  // namespace

TEST_CASE("B107 twenty processes of four threads make each of thirty keys once") { CHECK(run(0, {}) == 0); }

TEST_CASE("B111 processes killed at any moment stop nobody and leave nothing", "[kills]") {
  std::mt19937 random(4711);
  int cut_off = 0;
  for (unsigned repeat = 1; repeat <= 50; ++repeat) {
    std::multimap<int, int> moments;
    std::uniform_int_distribution<int> when(0, 60000), who(0, processes - 1);
    for (int kill = 0; kill < 8; ++kill) moments.emplace(when(random), who(random));
    CAPTURE(repeat);
    cut_off += run(repeat, moments);
  }
  // Makes are short here: whether a kill hits one is luck. tests/jit/killed_processes_test.cpp sees to it that some do.
  std::printf("%d makes were cut off by a kill\n", cut_off);
}
