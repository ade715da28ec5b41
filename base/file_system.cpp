// The real disk, by POSIX calls: every failure becomes an Error with the path and the system's reason.
#include "base/file_system.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace epifuse {
namespace {

constexpr std::string_view temporary_mark = ".tmp-";  // between the file's name and PID-N

Error system_error(std::string_view action, const std::string& path, int code) {
  return environment_error(fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(code)));
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // Some file systems report a full disk only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

 private:
  int number_;
};

Descriptor open_file(const std::string& path, int flags, mode_t mode = 0) {
  int number;
  do {
    number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (number < 0 && errno == EINTR);
  return Descriptor(number);
}

// 0, or the errno of the failure.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

class RealLock : public FileLock {
 public:
  RealLock(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  // Removed while the lock is still held: whoever opened the file before sees, once the lock is theirs, that it is no
  // longer the one under this name, and opens the name again.
  ~RealLock() override { ::unlink(path_.c_str()); }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class RealFileSystem : public FileSystem {
 public:
  Result<std::string> read(const std::string& path) override { return read_range(path, 0, most_bytes, true); }

  Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) override {
    return read_range(path, offset, size, false);
  }

  Status write_atomically(const std::string& path, std::string_view bytes) override {
    static std::atomic<uint64_t> counter{0};  // makes the names of temporaries unique within the process
    for (int attempt = 0;; ++attempt) {
      const std::string temporary = fmt::format("{}{}{}-{}", path, temporary_mark, ::getpid(), counter.fetch_add(1));
      Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
      if (!file.valid()) {
        // A process of the same number on another machine, or one that was killed, may have left the name behind.
        if (errno == EEXIST && attempt < 16) continue;
        return system_error("create", temporary, errno);
      }
      int failed = write_all(file.get(), bytes);
      if (failed == 0 && ::fsync(file.get()) != 0) failed = errno;
      if (const int close_failed = file.close(); failed == 0) failed = close_failed;
      if (failed == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
      if (failed == 0) return {};
      ::unlink(temporary.c_str());
      return system_error("write", path, failed);
    }
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
    if (::unlink(path.c_str()) != 0) return system_error("remove", path, errno);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return system_error("rename", from, errno);
    return {};
  }

  FileStatus status(const std::string& path) override {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return {};
    FileStatus status;
    status.exists = true;
    status.is_directory = S_ISDIR(found.st_mode);
    status.is_symlink = S_ISLNK(found.st_mode);
    status.owner = found.st_uid;
    status.mode = found.st_mode & 07777;
    status.size = static_cast<uint64_t>(found.st_size);
    status.modified = found.st_mtime;
    return status;
  }

  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    for (;;) {
      Descriptor file = open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
      if (!file.valid()) return system_error("create the lock file", path, errno);
      while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK) return std::unique_ptr<FileLock>();
        return system_error("lock", path, errno);
      }
      struct stat ours {
      }, named{};
      if (::fstat(file.get(), &ours) != 0) return system_error("lock", path, errno);
      const bool still_there = ::stat(path.c_str(), &named) == 0;
      if (still_there && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
        return std::unique_ptr<FileLock>(std::make_unique<RealLock>(std::move(file), path));
      }
      // The holder before us removed the file between our open and our lock: its name is free or someone else's.
    }
  }

 private:
  static Result<std::string> read_range(const std::string& path, uint64_t offset, uint64_t size, bool whole) {
    // O_NONBLOCK: opening a pipe that nobody writes to must not wait. It has no effect on regular files.
    const Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file.valid()) return system_error("open", path, errno);
    struct stat found {};
    if (::fstat(file.get(), &found) != 0) return system_error("read", path, errno);
    if (S_ISDIR(found.st_mode)) return system_error("read", path, EISDIR);
    if (!S_ISREG(found.st_mode)) return environment_error(fmt::format("cannot read {}: not a regular file", path));
    const uint64_t length = static_cast<uint64_t>(found.st_size);
    if (whole && length > most_bytes) {
      return environment_error(
          fmt::format("cannot read {}: {} bytes are more than any file of ours has", path, length));
    }
    std::string bytes(offset < length ? std::min(size, length - offset) : 0, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got =
          ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("read", path, errno);
      if (got == 0) break;  // the file became shorter meanwhile
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
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

FileSystem& real_file_system() {
  static RealFileSystem disk;
  return disk;
}

}  // namespace epifuse
