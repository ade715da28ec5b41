// Real processes on a real directory: a killed holder blocks nobody, a forked child holds nothing, and different keys
// are made at the same time.
#include <thread>

#include "tests/cache/worker_processes.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace std::chrono_literals;
using namespace epifuse::test;

namespace {

CacheOptions options_for(const std::string& directory) {
  CacheOptions options;
  options.directory = directory;
  return options;
}

}  // namespace

TEST_CASE("a process killed while it makes frees the key for the next one") {
  const ScratchDirectory scratch;
  const ArtifactKey key("request", "t");
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t holder = start_process([&] {
    KernelCache cache(real_file_system(), options_for(scratch / "cache"));
    (void)cache.find_or_make(key, [&]() -> Result<Made> {
      (void)!::write(ready[1], "x", 1);
      ::pause();
      return user_error("woken");
    });
    return false;
  });
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);

  std::thread killer([&] {
    std::this_thread::sleep_for(100ms);
    ::kill(holder, SIGKILL);
  });
  const auto start = std::chrono::steady_clock::now();
  KernelCache cache(real_file_system(), options_for(scratch / "cache"));
  const Result<Found> found = cache.find_or_make(key, []() -> Result<Made> {
    return Made{EntryKind::artifact, "cubin", "{}"};
  });
  const auto waited = std::chrono::steady_clock::now() - start;
  killer.join();
  ::waitpid(holder, nullptr, 0);
  REQUIRE(found);
  CHECK(found->from == Source::made);
  CHECK(waited >= 90ms);  // it did wait for the living holder
  CHECK(waited < 5s);
  ::close(ready[0]);
  ::close(ready[1]);
}

// The two ends of a pipe.
struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void put() { (void)!::write(ends[1], "x", 1); }
  bool get() {
    char byte;
    return ::read(ends[0], &byte, 1) == 1;
  }
  int ends[2];
};

TEST_CASE("two processes make two keys at the same time") {
  const ScratchDirectory scratch;
  Pipe begun[2];
  pid_t children[2];
  for (const int own : {0, 1}) {
    children[own] = start_process([&] {
      KernelCache cache(real_file_system(), options_for(scratch / "cache"));
      // Each goes on only when the other has begun as well, so both end only if they run side by side.
      return static_cast<bool>(cache.find_or_make(ArtifactKey(own ? "b" : "a", "t"), [&]() -> Result<Made> {
        begun[own].put();
        return begun[1 - own].get() ? Result<Made>(Made{EntryKind::artifact, "x", "{}"}) : user_error("alone");
      }));
    });
  }
  CHECK(succeeded(children[0]));
  CHECK(succeeded(children[1]));
}

TEST_CASE("a child that is forked while its parent makes holds up nobody when the parent is killed") {
  const ScratchDirectory scratch;
  const ArtifactKey key("request", "t");
  Pipe forked;
  const pid_t holder = start_process([&] {
    KernelCache cache(real_file_system(), options_for(scratch / "cache"));
    (void)cache.find_or_make(key, [&]() -> Result<Made> {
      if (::fork() == 0) {
        ::alarm(30);
        const pid_t own = ::getpid();
        (void)!::write(forked.ends[1], &own, sizeof own);
        ::pause();
        ::_exit(0);
      }
      ::pause();
      return user_error("woken");
    });
    return false;
  });
  pid_t grandchild = 0;
  REQUIRE(::read(forked.ends[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  const auto lock = real_file_system().try_lock(scratch / ("cache/" + key.name() + ".lock"));
  CHECK(::kill(grandchild, SIGKILL) == 0);  // it lived all the time
  CHECK((lock && *lock));
}

TEST_CASE("entries that are removed and made again under their readers disturb nobody") {
  const ScratchDirectory scratch;
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    children.push_back(start_process([&] {
      bool right = true;
      for (int i = 0; i < 300; ++i) {
        std::vector<std::string> warnings;
        CacheOptions options = options_for(scratch / "cache");
        options.log = [&](LogLevel level, std::string_view text) {
          if (level <= LogLevel::warn) warnings.emplace_back(text);
        };
        KernelCache cache(real_file_system(), options);  // every time as a new process
        const std::string name = "key" + std::to_string((i + process) % 3), payload(50000, name.back());
        const Result<Found> found = cache.find_or_make(ArtifactKey(name, "t"), [&]() -> Result<Made> {
          return Made{EntryKind::artifact, payload, "{}"};
        });
        right = right && found && found->payload == payload && warnings.empty();
        if (process == 0) right = right && cache.prune(i % 2, i % 3 == 0);
      }
      return right;
    }));
  }
  for (const pid_t child : children) CHECK(succeeded(child));
}

TEST_CASE("entries are private to their owner") {
  const ScratchDirectory scratch;
  KernelCache cache(real_file_system(), options_for(scratch / "deep/cache"));
  const Result<Found> found = cache.find_or_make(ArtifactKey("a", "t"), []() -> Result<Made> {
    return Made{EntryKind::artifact, "cubin", "{}"};
  });
  REQUIRE(found);
  CHECK(real_file_system().status(found->path).mode == 0600);
  CHECK(real_file_system().status(scratch / "deep/cache").mode == 0700);
}
