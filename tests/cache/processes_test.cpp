// Real processes on a real directory: one make per key among them all, and a killed holder blocks nobody.
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "cache/kernel_cache.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using namespace std::chrono_literals;
using epifuse::test::ScratchDirectory;

namespace {

CacheOptions options_for(const std::string& directory) {
  CacheOptions options;
  options.directory = directory;
  return options;
}

// Appends one byte: atomic between processes, and countable by the file's size.
void count_one(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)!::write(descriptor, "x", 1);
  ::close(descriptor);
}

// Runs `work` in a new process, which ends with its result without running the test framework's exit handlers.
template <class Work>
pid_t start_process(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  return child;
}

bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("eight processes on an empty directory make each of six keys once") {
  const ScratchDirectory scratch;
  const std::string cache_path = scratch / "cache";
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process) {
    children.push_back(start_process([&] {
      KernelCache cache(real_file_system(), options_for(cache_path));
      for (int i = 0; i < 6; ++i) {
        const std::string name = "key" + std::to_string((i + process) % 6);  // not all in one order
        const Result<Found> found = cache.find_or_make(ArtifactKey(name, "t"), [&]() -> Result<Made> {
          count_one(scratch / name);
          std::this_thread::sleep_for(30ms);
          return Made{EntryKind::artifact, "cubin of " + name, "{}"};
        });
        if (!found || *found->payload != "cubin of " + name) return false;
      }
      return true;
    }));
  }
  for (const pid_t child : children) CHECK(succeeded(child));
  for (int i = 0; i < 6; ++i) CHECK(real_file_system().status(scratch / ("key" + std::to_string(i))).size == 1);
  CHECK(real_file_system().list(cache_path)->size() == 6);  // no locks and no temporaries are left
}

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
