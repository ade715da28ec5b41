// Tries, looks, sleeps a little longer each time.
#include "cache/key_lock.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

#include "base/forks.h"
#include "cache/cache_directory.h"

namespace epifuse::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Doubled from one to the other: a compile takes a second, and a thousand processes may be waiting on a network disk.
constexpr milliseconds first_pause{1}, longest_pause{50};

// A file that we created, in place of a lock.
class Claim : public FileLock {
 public:
  Claim(FileSystem& disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  ~Claim() override {
    if (made_in_ == fork_count()) (void)disk_.remove(path_);
  }

 private:
  FileSystem& disk_;
  std::string path_;
  uint64_t made_in_ = fork_count();
};

}  // namespace

std::unique_ptr<FileLock> wait_for_lock(FileSystem& disk, const std::string& entry_path, const Patience& patience,
                                        const LogSink& log, const std::function<bool()>& appeared) {
  const auto say = [&](LogLevel level, const std::string& text) {
    if (log) log(level, text);
  };
  const std::string lock = entry_path + std::string(lock_suffix), claim = entry_path + std::string(claim_suffix);
  const steady_clock::time_point start = steady_clock::now();
  milliseconds pause = first_pause, next_progress = patience.progress_after;
  bool locks_work = true;
  for (;;) {
    if (locks_work) {
      Result<std::unique_ptr<FileLock>> held = disk.try_lock(lock);
      if (held && *held) return *std::move(held);
      locks_work = static_cast<bool>(held);
      if (!locks_work) say(LogLevel::debug, held.error().message);
    }
    if (!locks_work) {
      const Result<bool> claimed = disk.create_atomically(claim, "");
      if (!claimed) {
        say(LogLevel::debug, claimed.error().message);
        return nullptr;
      }
      if (*claimed) return std::make_unique<Claim>(disk, claim);
      if (const FileStatus taken = disk.status(claim); taken.is_directory || taken.is_symlink || taken.is_special) {
        // Nobody's claim, so nobody is waited for.
        if (disk.remove(claim)) continue;
        say(LogLevel::warn, fmt::format("{} is no file of a process that compiles, and cannot be removed; processes do "
                                        "not wait for each other's compiles of this kernel",
                                        claim));
        return nullptr;
      }
    }
    if (appeared()) return nullptr;
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
    if (!locks_work && waited >= patience.without_locks) {
      say(LogLevel::warn, fmt::format("another process has had {} for {} s, and this disk knows no locks that would "
                                      "tell whether it lives; this process makes the kernel itself",
                                      claim, waited.count() / 1000));
      (void)disk.remove(claim);
      return nullptr;
    }
    if (waited >= next_progress) {
      next_progress += patience.progress_every;
      say(LogLevel::warn, fmt::format("waiting for another process to compile a kernel, for {} s so far (it holds {})",
                                      waited.count() / 1000, locks_work ? lock : claim));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

}  // namespace epifuse::cache
