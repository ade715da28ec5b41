// The real disk: atomic replacement, refusals that must not hang, and the lock.
#include "base/file_system.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using epifuse::test::ScratchDirectory;

TEST_CASE("the names of temporaries are told from others") {
  for (const char* name : {"entry.tmp-1-0", "a.tmp-x.tmp-4711-12"}) CHECK(is_temporary_name(name));
  for (const char* name : {"", "entry", ".tmp-1-0", "entry.tmp-", "entry.tmp-1", "entry.tmp--0", "entry.tmp-1-",
                           "entry.tmp-1-0.bad", "entry.tmp-1-0x"}) {
    CHECK(!is_temporary_name(name));
  }
}

TEST_CASE("a temporary that a killed process leaves has such a name") {
  const ScratchDirectory scratch;
  const auto temporary = [&]() -> std::string {
    const Result<std::vector<std::string>> names = real_file_system().list(scratch.path());
    REQUIRE(names);
    for (const std::string& name : *names)
      if (name != "entry") return name;
    return "";
  };
  while (temporary().empty()) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string bytes(16 << 20, 'x');
      for (;;) (void)real_file_system().write_atomically(scratch / "entry", bytes);
    }
    while (temporary().empty()) std::this_thread::yield();
    ::kill(child, SIGKILL);  // in the middle of a write, or by chance between two
    REQUIRE(::waitpid(child, nullptr, 0) == child);
  }
  CHECK(temporary().starts_with("entry.tmp-"));
  CHECK(is_temporary_name(temporary()));
}

TEST_CASE("what is in the place of a lock and no lock is removed, but for a directory with something in it") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(::symlink("elsewhere", (scratch / "link").c_str()) == 0);
  REQUIRE(::mkdir((scratch / "empty").c_str(), 0700) == 0);
  for (const char* name : {"link", "empty"}) {
    const auto lock = disk.try_lock(scratch / name);
    REQUIRE(lock);
    CHECK(*lock);
  }
  CHECK(!disk.status(scratch / "elsewhere").exists);
  REQUIRE(disk.make_directories(scratch / "full/er"));
  CHECK(!disk.try_lock(scratch / "full"));
  CHECK(!disk.remove(scratch / "full"));
  CHECK(disk.remove(scratch / "full/er"));
}

TEST_CASE("a name as long as the disk takes is written, through a temporary with a shorter one") {
  const ScratchDirectory scratch;
  const std::string name(255, 'n');
  CHECK(real_file_system().write_atomically(scratch / name, "x"));
  CHECK(!real_file_system().write_atomically(scratch / (name + "n"), "x"));
  CHECK(*real_file_system().list(scratch.path()) == std::vector<std::string>{name});
}

TEST_CASE("a file that would become larger than the process may write is an error and kills nobody") {
  const ScratchDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1024, 1024};
    ::signal(SIGXFSZ, SIG_DFL);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    FileSystem& disk = real_file_system();
    const Status written = disk.write_atomically(scratch / "entry", std::string(4096, 'x'));
    const bool none_left = disk.list(scratch.path())->empty();
    const Status appended = disk.append(scratch / "record", std::string(4096, 'x'));
    sigset_t mask, pending;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    ::sigpending(&pending);
    const bool as_before = ::sigismember(&mask, SIGXFSZ) == 0 && ::sigismember(&pending, SIGXFSZ) == 0;
    ::_exit(!written && none_left && !appended && as_before ? 0 : 1);
  }
  int outcome = 0;
  REQUIRE(::waitpid(child, &outcome, 0) == child);
  REQUIRE(WIFEXITED(outcome));
  CHECK(WEXITSTATUS(outcome) == 0);
}

TEST_CASE("a file never has the number of a standard stream") {
  const ScratchDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    FileSystem& disk = real_file_system();
    for (const int number : {0, 1, 2}) ::close(number);
    const auto lock = disk.try_lock(scratch / "lock");
    bool good = lock && *lock;
    for (const int number : {0, 1, 2}) good = good && ::fcntl(number, F_GETFD) < 0;
    const auto again = disk.try_lock(scratch / "lock");
    ::_exit(good && again && !*again ? 0 : 1);
  }
  int outcome = 0;
  REQUIRE(::waitpid(child, &outcome, 0) == child);
  CHECK((WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0));
}

TEST_CASE("a file is written, read, listed, renamed and removed") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  const std::string bytes("a\0b\xff", 4);
  REQUIRE(disk.write_atomically(scratch / "one", bytes));
  REQUIRE(disk.write_atomically(scratch / "one", bytes + bytes));  // replaced
  CHECK(*disk.read(scratch / "one") == bytes + bytes);
  CHECK(*disk.read_part(scratch / "one", 2, 3) == std::string("b\xff"
                                                              "a",
                                                              3));
  CHECK(*disk.read_part(scratch / "one", 6, 100) == bytes.substr(2));
  CHECK(*disk.read_part(scratch / "one", 1000, 100) == "");

  const FileStatus status = disk.status(scratch / "one");
  CHECK(status.exists);
  CHECK(!status.is_directory);
  CHECK(status.owner == ::geteuid());
  CHECK(status.mode == 0600);
  CHECK(status.size == 8);

  REQUIRE(disk.rename(scratch / "one", scratch / "two"));
  CHECK(*disk.list(scratch.path()) == std::vector<std::string>{"two"});  // and no temporary is left
  REQUIRE(disk.remove(scratch / "two"));
  CHECK(!disk.status(scratch / "two").exists);
}

TEST_CASE("what cannot be read is an error that names the path, and never a wait") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  for (const std::string name : {"missing", "pipe", ""}) {
    const Result<std::string> bytes = disk.read(scratch / name);
    REQUIRE(!bytes);
    CHECK(bytes.error().kind == ErrorKind::environment);
    CHECK(bytes.error().message.find(scratch / name) != std::string::npos);
  }
  CHECK(!disk.read("/dev/zero"));
}

TEST_CASE("a write that fails leaves the old file and no temporary") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  // A directory of that name refuses the rename, also for root, for whom permissions do not count.
  REQUIRE(disk.make_directories(scratch / "taken/inside"));
  CHECK(!disk.write_atomically(scratch / "taken", "new"));
  CHECK(*disk.list(scratch.path()) == std::vector<std::string>{"taken"});
  CHECK(!disk.write_atomically(scratch / "nowhere/file", "new"));
}

TEST_CASE("content comes with the status of the file that was read, and links are not followed") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(disk.write_atomically(scratch / "file", "bytes"));
  REQUIRE(::symlink("file", (scratch / "link").c_str()) == 0);
  const auto file = disk.read_content(scratch / "file"), link = disk.read_content(scratch / "link"),
             missing = disk.read_content(scratch / "missing");
  REQUIRE((file && link && missing));
  CHECK(file->bytes == "bytes");
  CHECK(file->status.owner == ::geteuid());
  CHECK(file->status.mode == 0600);
  CHECK(file->status.size == 5);
  CHECK(file->status.inode == disk.status(scratch / "file").inode);
  CHECK(link->status.is_symlink);
  CHECK(link->bytes.empty());
  CHECK(!missing->status.exists);
  // What is no file is told from a file that cannot be read.
  CHECK(disk.read_content(scratch.path())->status.is_directory);
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK(disk.read_content(scratch / "pipe")->status.is_special);
  CHECK(disk.target_status(scratch / "link").inode == file->status.inode);
  CHECK(disk.status(scratch / "link").inode != file->status.inode);
  CHECK(*disk.read(scratch / "link") == "bytes");
}

TEST_CASE("a touch sets the time of the last write, and what is taken is counted in blocks") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(disk.write_atomically(scratch / "file", std::string(1, 'x')));
  const timespec old[] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (scratch / "file").c_str(), old, 0) == 0);
  CHECK(disk.status(scratch / "file").modified == 1000);
  CHECK(disk.status(scratch / "file").modified_ns == 1000'000'000'000);
  REQUIRE(disk.touch(scratch / "file"));
  CHECK(disk.status(scratch / "file").modified > 1000);
  CHECK(!disk.touch(scratch / "missing"));
  struct stat status {};
  REQUIRE(::stat((scratch / "file").c_str(), &status) == 0);
  CHECK(disk.status(scratch / "file").allocated == static_cast<uint64_t>(status.st_blocks) * 512);
}

TEST_CASE("what is abandoned is removed, what is held is not") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  {
    const auto held = disk.try_lock(scratch / "lock");
    REQUIRE((held && *held));
    const Result<bool> removed = disk.remove_abandoned(scratch / "lock");
    REQUIRE(removed);
    CHECK(!*removed);
    CHECK(disk.status(scratch / "lock").exists);
  }
  REQUIRE(disk.write_atomically(scratch / "lock", ""));
  CHECK(*disk.remove_abandoned(scratch / "lock"));
  CHECK(!disk.status(scratch / "lock").exists);
  CHECK(!*disk.remove_abandoned(scratch / "lock"));
}

TEST_CASE("a forked child neither holds its parent's lock nor removes it") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  auto held = disk.try_lock(scratch / "lock");
  REQUIRE((held && *held));
  int wake[2];
  REQUIRE(::pipe(wake) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    held->reset();
    const bool still_there = disk.status(scratch / "lock").exists;
    char byte;
    (void)!::read(wake[0], &byte, 1);
    ::_exit(still_there ? 0 : 1);
  }
  const auto other = disk.try_lock(scratch / "lock");
  CHECK((other && *other == nullptr));  // the child's release was not ours
  held->reset();
  const auto again = disk.try_lock(scratch / "lock");
  CHECK((again && *again != nullptr));  // though the child lives
  (void)!::write(wake[1], "x", 1);
  int outcome = 0;
  REQUIRE(::waitpid(child, &outcome, 0) == child);
  CHECK((WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0));
  ::close(wake[0]);
  ::close(wake[1]);
}

TEST_CASE("directories are private, may exist, and are not made through a file") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(disk.make_directories(scratch / "a/b/c"));
  REQUIRE(disk.make_directories(scratch / "a/b/c"));
  CHECK(disk.status(scratch / "a/b").mode == 0700);
  REQUIRE(disk.write_atomically(scratch / "file", ""));
  const Status made = disk.make_directories(scratch / "file/below");
  REQUIRE(!made);
  CHECK(made.error().message.find("file") != std::string::npos);
}

TEST_CASE("the status of a link is the link's own") {
  const ScratchDirectory scratch;
  REQUIRE(::symlink("/etc", (scratch / "link").c_str()) == 0);
  const FileStatus status = real_file_system().status(scratch / "link");
  CHECK(status.exists);
  CHECK(status.is_symlink);
  CHECK(!status.is_directory);
}

TEST_CASE("a lock excludes and leaves no file") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  {
    const auto first = disk.try_lock(scratch / "lock");
    REQUIRE(first);
    REQUIRE(*first != nullptr);
    const auto second = disk.try_lock(scratch / "lock");
    REQUIRE(second);
    CHECK(*second == nullptr);
  }
  CHECK(disk.list(scratch.path())->empty());
  CHECK(*disk.try_lock(scratch / "lock") != nullptr);
  CHECK(!disk.try_lock(scratch / "nowhere/lock"));
}

TEST_CASE("a lock file that disappears under its waiters never has two holders") {
  const ScratchDirectory scratch;
  std::atomic<int> holders{0}, most{0}, taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (std::chrono::steady_clock::now() < end) {
        const auto lock = real_file_system().try_lock(scratch / "lock");
        if (!lock || !*lock) continue;
        const int now = ++holders;
        if (now > most) most = now;
        ++taken;
        std::this_thread::yield();
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most == 1);
  CHECK(taken > 10);
}

TEST_CASE("a lock ends with the process that holds it, however that ends") {
  const ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = disk.try_lock(scratch / "lock");
    const char held = lock && *lock ? 'y' : 'n';
    (void)!::write(ready[1], &held, 1);
    ::pause();
  }
  char held = 0;
  REQUIRE(::read(ready[0], &held, 1) == 1);
  REQUIRE(held == 'y');
  CHECK(*disk.try_lock(scratch / "lock") == nullptr);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(*disk.try_lock(scratch / "lock") != nullptr);
  ::close(ready[0]);
  ::close(ready[1]);
}
