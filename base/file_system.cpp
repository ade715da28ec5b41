// The real disk, by POSIX calls: every failure becomes an Error with the path and the system's reason.
#include "base/file_system.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/held_descriptor.h"

namespace epifuse {
namespace {

constexpr std::string_view temporary_mark = ".tmp-";  // between the file's name and PID-N

Error system_error(std::string_view action, const std::string& path, int code) {
  return environment_error(fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(code)));
}

Descriptor open_file(const std::string& path, int flags, mode_t mode = 0) {
  int number;
  do {
    number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (number < 0 && errno == EINTR);
  Descriptor file(number);
  if (number < 0 || number > STDERR_FILENO) return file;
  // The process runs without one of its standard streams. Whatever is said there would end up in our file.
  return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// While it lives, a file that would become larger than the process may write (ulimit -f) is an error like that of a
// full disk, and no signal that ends the process, which may be anybody's.
class SizeLimitIsAnError {
 public:
  SizeLimitIsAnError() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGXFSZ) == 1;
    blocked_ = ::pthread_sigmask(SIG_BLOCK, &signal_, &before_) == 0;
  }
  SizeLimitIsAnError(const SizeLimitIsAnError&) = delete;
  ~SizeLimitIsAnError() {
    if (!blocked_) return;
    constexpr timespec at_once{};
    if (!was_pending_) (void)::sigtimedwait(&signal_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_, before_;
  bool was_pending_ = false, blocked_ = false;
};

// 0, or the errno of the failure.
int write_all(int descriptor, std::string_view bytes) {
  const SizeLimitIsAnError limited;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// Takes the lock of an open file: 0, EWOULDBLOCK when somebody else has it, or the errno that says it has none.
int lock_file(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Whether the file is still the one under this name.
bool is_named(int descriptor, const std::string& path) {
  struct stat ours {
  }, named{};
  return ::fstat(descriptor, &ours) == 0 && ::lstat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
         ours.st_dev == named.st_dev;
}

class RealLock : public FileLock {
 public:
  RealLock(HeldDescriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  // Removed while the lock is still held: whoever opened the file before sees, once the lock is theirs, that it is no
  // longer the one under this name, and opens the name again.
  ~RealLock() override {
    if (descriptor_.is_ours()) ::unlink(path_.c_str());
  }

 private:
  HeldDescriptor descriptor_;
  std::string path_;
};

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileStatus status_of(const struct stat& found) {
  FileStatus status;
  status.exists = true;
  status.is_directory = S_ISDIR(found.st_mode);
  status.is_symlink = S_ISLNK(found.st_mode);
  status.is_special = !status.is_directory && !status.is_symlink && !S_ISREG(found.st_mode);
  status.owner = found.st_uid;
  status.mode = found.st_mode & 07777;
  status.size = static_cast<uint64_t>(found.st_size);
  status.allocated = static_cast<uint64_t>(found.st_blocks) * 512;
  status.modified = found.st_mtime;
  status.device = found.st_dev;
  status.inode = found.st_ino;
  status.modified_ns = nanoseconds(found.st_mtim);
  status.changed_ns = nanoseconds(found.st_ctim);
  return status;
}

// A whole file in the making, beside the place where it is to be.
struct Temporary {
  HeldDescriptor file;  // locked, so that nobody takes it for one that a killed process left
  std::string name;
};

// On a network disk a handle goes stale when somebody replaces the file; the name then leads to the new one.
constexpr int most_attempts = 4;

class RealFileSystem : public FileSystem {
 public:
  Result<std::string> read(const std::string& path) override {
    Result<Content> content = read_range(path, 0, most_bytes, 0);
    if (!content) return content.error();
    if (!content->status.exists) return system_error("open", path, ENOENT);
    return std::move(content->bytes);
  }

  Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) override {
    Result<Content> content = read_range(path, offset, size, 0);
    if (!content) return content.error();
    if (!content->status.exists) return system_error("open", path, ENOENT);
    return std::move(content->bytes);
  }

  Result<Content> read_content(const std::string& path) override { return read_range(path, 0, most_bytes, O_NOFOLLOW); }

  Result<SharedBytes> map(const std::string& path) override {
    const Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file.valid()) return system_error("open", path, errno);
    struct stat found {};
    if (::fstat(file.get(), &found) != 0) return system_error("read", path, errno);
    if (S_ISDIR(found.st_mode)) return system_error("read", path, EISDIR);
    if (!S_ISREG(found.st_mode)) return environment_error(fmt::format("cannot read {}: not a regular file", path));
    const auto size = static_cast<size_t>(found.st_size);
    if (size == 0) return SharedBytes();
    void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (start == MAP_FAILED) return system_error("map", path, errno);
    std::shared_ptr<const void> owner(start, [size](const void* at) { ::munmap(const_cast<void*>(at), size); });
    return SharedBytes(std::move(owner), {static_cast<const char*>(start), size});
  }

  Status write_atomically(const std::string& path, std::string_view bytes) override {
    const Result<Temporary> made = write_temporary(path, bytes);
    if (!made) return made.error();
    if (::rename(made->name.c_str(), path.c_str()) == 0) return {};
    const int failed = errno;
    // The server did it, the reply got lost, and the second request found nothing to rename.
    if (is_named(made->file.get(), path)) return {};
    ::unlink(made->name.c_str());
    return system_error("write", path, failed);
  }

  Result<bool> create_atomically(const std::string& path, std::string_view bytes) override {
    const Result<Temporary> made = write_temporary(path, bytes);
    if (!made) return made.error();
    // A link and no rename, which would replace what another one has just put there. What it returns is not to be
    // relied upon where replies get lost.
    bool created = ::link(made->name.c_str(), path.c_str()) == 0;
    int failed = created ? 0 : errno;
    if (!created && is_named(made->file.get(), path)) created = true;
    if (!created && failed != EEXIST && has_no_links(failed) && !status(path).exists) {
      created = ::rename(made->name.c_str(), path.c_str()) == 0;
      failed = created ? 0 : errno;
      if (created) return true;
    }
    ::unlink(made->name.c_str());
    if (created) return true;
    if (failed == EEXIST || status(path).exists) return false;
    return system_error("write", path, failed);
  }

  Status touch(const std::string& path) override {
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) {
      return system_error("set the time of", path, errno);
    }
    return {};
  }

  Status append(const std::string& path, std::string_view bytes) override {
    Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY, 0666);
    if (!file.valid()) return system_error("open", path, errno);
    // One write is one line, unless the disk is full.
    int failed = write_all(file.get(), bytes);
    if (const int close_failed = file.close(); failed == 0) failed = close_failed;
    if (failed != 0) return system_error("append to", path, failed);
    return {};
  }

  Status make_directories(const std::string& path) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      if (::mkdir(prefix.c_str(), 0700) != 0) {
        const int failed = errno;  // EEXIST, or EROFS and EACCES above a directory that is there
        struct stat found {};
        if (::stat(prefix.c_str(), &found) != 0) return system_error("create the directory", prefix, failed);
        if (!S_ISDIR(found.st_mode)) return system_error("create the directory", prefix, ENOTDIR);
      }
      if (end == std::string::npos) return {};
    }
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) return system_error("list", directory, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(stream.get());
      if (!entry) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return system_error("list", directory, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return {};
    int failed = errno;
    if (failed == EISDIR || failed == EPERM) {  // the latter is POSIX's word for the former
      if (::rmdir(path.c_str()) == 0) return {};
      if (errno != ENOTDIR) failed = errno;
    }
    return system_error("remove", path, failed);
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return system_error("rename", from, errno);
    return {};
  }

  FileStatus status(const std::string& path) override {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 ? status_of(found) : FileStatus();
  }

  FileStatus target_status(const std::string& path) override {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 ? status_of(found) : FileStatus();
  }

  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    for (;;) {
      HeldDescriptor file(open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
      if (file.get() < 0) {
        const int failed = errno;
        if ((failed == ELOOP || failed == EISDIR) && remove(path)) continue;
        return system_error("create the lock file", path, failed);
      }
      const int failed = lock_file(file.get());
      if (failed == EWOULDBLOCK) return std::unique_ptr<FileLock>();
      if (failed != 0) {
        ::unlink(path.c_str());  // it locks nothing for anybody
        return system_error("lock", path, failed);
      }
      // Else the holder before us removed the file between our open and our lock: its name is free or someone else's.
      if (is_named(file.get(), path)) {
        return std::unique_ptr<FileLock>(std::make_unique<RealLock>(std::move(file), path));
      }
    }
  }

  Result<bool> remove_abandoned(const std::string& path) override {
    const HeldDescriptor file(open_file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) {
      if (errno == ENOENT) return false;
      return system_error("open", path, errno);
    }
    const int failed = lock_file(file.get());
    if (failed == EWOULDBLOCK) return false;
    if (failed != 0) return system_error("lock", path, failed);
    return is_named(file.get(), path) && ::unlink(path.c_str()) == 0;
  }

 private:
  // Whether a link fails so where a disk, or a directory, has no hard links at all.
  static bool has_no_links(int failed) {
    return failed == EPERM || failed == EOPNOTSUPP || failed == ENOSYS || failed == EMLINK || failed == EACCES;
  }

  static Result<Temporary> write_temporary(const std::string& path, std::string_view bytes) {
    static std::atomic<uint64_t> counter{0};  // makes the names of temporaries unique within the process
    for (int attempt = 0;; ++attempt) {
      const size_t folder = path.rfind('/') + 1;  // 0 where there is none
      std::string name = fmt::format("{}{}{}-{}", path.substr(0, folder), temporary_prefix(path.substr(folder)),
                                     ::getpid(), counter.fetch_add(1));
      HeldDescriptor file(open_file(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
      if (file.get() < 0) {
        // A process of the same number on another machine, or one that was killed, may have left the name behind.
        if (errno == EEXIST && attempt < 16) continue;
        return system_error("create", name, errno);
      }
      (void)lock_file(file.get());
      int failed = write_all(file.get(), bytes);
      if (failed == 0 && ::fsync(file.get()) != 0) failed = errno;
      // Closed once, for the sake of disks that report only then that they are full; the lock stays with the other.
      if (Descriptor copy(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)); failed == 0 && copy.valid()) failed = copy.close();
      if (failed == 0 && attempt < most_attempts && !is_named(file.get(), name))
        continue;  // swept before it was locked
      if (failed == 0) return Temporary{std::move(file), std::move(name)};
      ::unlink(name.c_str());
      return system_error("write", path, failed);
    }
  }

  static Result<Content> read_range(const std::string& path, uint64_t offset, uint64_t size, int flags) {
    for (int attempt = 1;; ++attempt) {
      int failed = 0;
      Result<Content> content = read_once(path, offset, size, flags, failed);
      if (failed == ENOENT && flags != 0) return Content();
      // What is no regular file is not opened for its content, and a socket not at all.
      if (failed != 0 && flags != 0) {
        struct stat found {};
        if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) return Content{status_of(found), ""};
      }
      if (failed != ESTALE || attempt == most_attempts) return content;
    }
  }

  // `failed`: the errno behind an error.
  static Result<Content> read_once(const std::string& path, uint64_t offset, uint64_t size, int flags, int& failed) {
    const auto fail = [&](std::string_view action, int code) { return system_error(action, path, failed = code); };
    // O_NONBLOCK: opening a pipe that nobody writes to must not wait. It has no effect on regular files.
    const Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags);
    if (!file.valid()) return fail("open", errno);
    struct stat found {};
    if (::fstat(file.get(), &found) != 0) return fail("read", errno);
    if (S_ISDIR(found.st_mode)) return fail("read", EISDIR);
    if (!S_ISREG(found.st_mode)) {
      failed = EINVAL;
      return environment_error(fmt::format("cannot read {}: not a regular file", path));
    }
    Content content{status_of(found), ""};
    const uint64_t length = content.status.size;
    if (size == most_bytes && length > most_bytes) {
      return environment_error(
          fmt::format("cannot read {}: {} bytes are more than any file of ours has", path, length));
    }
    content.bytes.resize(offset < length ? std::min(size, length - offset) : 0);
    size_t done = 0;
    while (done < content.bytes.size()) {
      const ssize_t got = ::pread(file.get(), content.bytes.data() + done, content.bytes.size() - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail("read", errno);
      if (got == 0) break;  // the file became shorter meanwhile
      done += static_cast<size_t>(got);
    }
    content.bytes.resize(done);
    return content;
  }
};

}  // namespace

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(temporary_mark);
  if (mark == std::string_view::npos || mark == 0) return false;
  const std::string_view numbers = name.substr(mark + temporary_mark.size());
  const size_t dash = numbers.find('-');
  if (dash == std::string_view::npos) return false;
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return is_number(numbers.substr(0, dash)) && is_number(numbers.substr(dash + 1));
}

std::string temporary_prefix(std::string_view name) {
  // File systems take 255 bytes; the numbers need some of them.
  constexpr size_t most = 220;
  return fmt::format("{}{}", name.substr(0, most), temporary_mark);
}

FileSystem& real_file_system() {
  static RealFileSystem disk;
  return disk;
}

}  // namespace epifuse
