// The real disk under system calls that fail: each call that it makes can be told to fail at its n-th turn, to do less
// than asked, or to do it and say that it failed, as network disks do. The linker puts the functions below in the place
// of the system's (--wrap).
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <fcntl.h>
#include <functional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_system.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using epifuse::test::ScratchDirectory;

namespace {

enum class Effect { fails, happens_and_fails, is_short };

// What goes wrong; nothing while `call` is empty.
struct Fault {
  std::string call;
  int code = 0;
  Effect effect = Effect::fails;
  int from = 0, count = 1;  // turns of the call, from 0
  std::function<void()> before;
};
Fault fault;
int turn = 0;

// While it lives, the fault is in force.
struct InForce {
  explicit InForce(Fault what) {
    fault = std::move(what);
    turn = 0;
  }
  ~InForce() { fault = {}; }
};

bool strikes(const char* call) {
  if (fault.call != call) return false;
  if (fault.before) fault.before();
  const int now = turn++;
  return now >= fault.from && now < fault.from + fault.count;
}

// The call, or its failure. `shorter` does less of it.
template <class Call, class Shorter>
auto under_fault(const char* name, Call call, Shorter shorter) -> decltype(call()) {
  if (!strikes(name)) return call();
  if (fault.effect == Effect::is_short) return shorter();
  if (fault.effect == Effect::happens_and_fails) (void)call();
  errno = fault.code;
  return -1;
}
template <class Call>
auto under_fault(const char* name, Call call) -> decltype(call()) {
  return under_fault(name, call, call);
}

}  // namespace

extern "C" {
int __real_open(const char*, int, ...);
ssize_t __real_write(int, const void*, size_t);
ssize_t __real_pread(int, void*, size_t, off_t);
int __real_fsync(int);
int __real_link(const char*, const char*);
int __real_rename(const char*, const char*);
int __real_flock(int, int);

int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return under_fault("open", [&] { return __real_open(path, flags, mode); });
}
ssize_t __wrap_write(int file, const void* bytes, size_t size) {
  return under_fault(
      "write", [&] { return __real_write(file, bytes, size); }, [&] { return __real_write(file, bytes, 1); });
}
ssize_t __wrap_pread(int file, void* bytes, size_t size, off_t offset) {
  return under_fault(
      "pread", [&] { return __real_pread(file, bytes, size, offset); },
      [&] { return __real_pread(file, bytes, 1, offset); });
}
int __wrap_fsync(int file) {
  return under_fault("fsync", [&] { return __real_fsync(file); });
}
int __wrap_link(const char* from, const char* to) {
  return under_fault("link", [&] { return __real_link(from, to); });
}
int __wrap_rename(const char* from, const char* to) {
  return under_fault("rename", [&] { return __real_rename(from, to); });
}
int __wrap_flock(int file, int what) {
  return under_fault("flock", [&] { return __real_flock(file, what); });
}
}

namespace {

FileSystem& disk() { return real_file_system(); }

std::vector<std::string> names_in(const ScratchDirectory& scratch) {
  Result<std::vector<std::string>> names = disk().list(scratch.path());
  REQUIRE(names);
  return *std::move(names);
}

bool says(const Error& error, int code) {
  return error.message.find(std::generic_category().message(code)) != std::string::npos;
}

}  // namespace

TEST_CASE("a full disk at any call of a write leaves what was there and no temporary, and says so") {
  const ScratchDirectory scratch;
  REQUIRE(disk().write_atomically(scratch / "entry", "old"));
  for (const int code : {ENOSPC, EDQUOT, EIO, EROFS}) {
    for (const char* call : {"open", "write", "fsync", "rename"}) {
      const InForce broken({.call = call, .code = code});
      const Status written = disk().write_atomically(scratch / "entry", "new");
      REQUIRE(!written);
      CHECK(says(written.error(), code));
      CHECK(written.error().message.find(scratch / "entry") != std::string::npos);
    }
    for (const char* call : {"open", "write", "fsync", "link"}) {
      const InForce broken({.call = call, .code = code});
      CHECK(!disk().create_atomically(scratch / "another", "new"));
    }
    // The second part of a long write.
    const InForce broken({.call = "write", .code = code, .effect = Effect::fails, .from = 1});
    CHECK(disk().write_atomically(scratch / "entry", "old"));
  }
  CHECK(names_in(scratch) == std::vector<std::string>{"entry"});
  CHECK(*disk().read(scratch / "entry") == "old");
}

TEST_CASE("calls that do less than asked, or are interrupted, are gone on with") {
  const ScratchDirectory scratch;
  const std::string bytes(1000, 'x');
  for (const char* call : {"write", "pread"}) {
    const InForce halting({.call = call, .effect = Effect::is_short, .count = 10});
    REQUIRE(disk().write_atomically(scratch / "entry", bytes));
    CHECK(*disk().read(scratch / "entry") == bytes);
  }
  for (const char* call : {"open", "write", "pread", "flock"}) {
    const InForce interrupted({.call = call, .code = EINTR, .count = 3});
    REQUIRE(disk().write_atomically(scratch / "entry", bytes));
    CHECK(*disk().read(scratch / "entry") == bytes);
  }
}

TEST_CASE("a handle that went stale is opened again, some times") {
  const ScratchDirectory scratch;
  REQUIRE(disk().write_atomically(scratch / "entry", "bytes"));
  for (const char* call : {"open", "pread"}) {
    const InForce stale({.call = call, .code = ESTALE, .count = 2});
    CHECK(*disk().read(scratch / "entry") == "bytes");
    const InForce still_stale({.call = call, .code = ESTALE, .count = 1000});
    const Result<FileSystem::Content> content = disk().read_content(scratch / "entry");
    REQUIRE(!content);
    CHECK(says(content.error(), ESTALE));
  }
  const InForce broken({.call = "pread", .code = EIO});
  CHECK(!disk().read(scratch / "entry"));
}

TEST_CASE("a name that leads nowhere when it is opened is no file, however it was seen before") {
  const ScratchDirectory scratch;
  REQUIRE(disk().write_atomically(scratch / "entry", "bytes"));
  const InForce gone({.call = "open", .code = ENOENT});
  const Result<FileSystem::Content> content = disk().read_content(scratch / "entry");
  REQUIRE(content);
  CHECK(!content->status.exists);
}

TEST_CASE("B109 a publication whose reply got lost is one that worked") {
  const ScratchDirectory scratch;
  {
    const InForce lost({.call = "link", .code = EEXIST, .effect = Effect::happens_and_fails});
    const Result<bool> created = disk().create_atomically(scratch / "entry", "ours");
    REQUIRE(created);
    CHECK(*created);
  }
  {
    const InForce lost({.call = "rename", .code = ENOENT, .effect = Effect::happens_and_fails});
    CHECK(disk().write_atomically(scratch / "entry", "replaced"));
  }
  CHECK(*disk().read(scratch / "entry") == "replaced");
  CHECK(names_in(scratch) == std::vector<std::string>{"entry"});
}

TEST_CASE("of two that create a file one does, also on a disk without hard links") {
  for (const int code : {0, EPERM, EOPNOTSUPP, EMLINK}) {
    const ScratchDirectory scratch;
    const InForce without_links({.call = code == 0 ? "" : "link", .code = code, .count = 100});
    const Result<bool> first = disk().create_atomically(scratch / "entry", "first"),
                       second = disk().create_atomically(scratch / "entry", "second");
    REQUIRE(first);
    REQUIRE(second);
    CHECK(*first);
    CHECK(!*second);
    CHECK(*disk().read(scratch / "entry") == "first");
    CHECK(disk().status(scratch / "entry").mode == 0600);
    CHECK(names_in(scratch) == std::vector<std::string>{"entry"});
  }
}

TEST_CASE("a disk without locks says so and keeps no lock file") {
  const ScratchDirectory scratch;
  for (const int code : {ENOLCK, EOPNOTSUPP, EINVAL}) {
    const InForce without_locks({.call = "flock", .code = code, .count = 100});
    const auto lock = disk().try_lock(scratch / "lock");
    REQUIRE(!lock);
    CHECK(says(lock.error(), code));
    CHECK(names_in(scratch).empty());
    REQUIRE(disk().write_atomically(scratch / "file", "written without"));
    CHECK(!disk().remove_abandoned(scratch / "file"));
    REQUIRE(disk().remove(scratch / "file"));
  }
}

TEST_CASE("a temporary that is swept before it is locked is written again") {
  const ScratchDirectory scratch;
  int sweeps = 0;
  // Another process looks in the moment between the making and the locking of the file.
  const InForce swept({.call = "flock", .code = 0, .count = 0, .before = [&] {
                         if (++sweeps == 1) {
                           for (const std::string& name : names_in(scratch)) ::unlink((scratch / name).c_str());
                         }
                       }});
  REQUIRE(disk().write_atomically(scratch / "entry", "bytes"));
  CHECK(sweeps == 2);
  CHECK(*disk().read(scratch / "entry") == "bytes");
  CHECK(names_in(scratch) == std::vector<std::string>{"entry"});
}
