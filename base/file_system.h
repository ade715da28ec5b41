// The disk, as the few operations that Epifuse needs of it. Libraries take a FileSystem&, so that tests can use one in
// memory, one that counts, and one that fails (disk full at the n-th write, read errors, refused renames).
//
// Every message names the path and the system's reason. Only regular files are read: a pipe or a device in the place of
// a file is an error, never a wait.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/shared_bytes.h"

namespace epifuse {

struct FileStatus {
  bool exists = false;
  bool is_directory = false;
  bool is_symlink = false;
  bool is_special = false;  // a pipe, a device, a socket
  uint32_t owner = 0;       // uid
  uint32_t mode = 0;        // permission bits
  uint64_t size = 0;
  uint64_t allocated = 0;  // bytes of the disk that it takes
  int64_t modified = 0;    // seconds since the epoch
  // These tell one state of a file from every other: whoever writes into it, or puts another in its place, changes one.
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since the epoch
};

// A lock that is held until it is destroyed. The system releases it when the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  // No file that Epifuse reads whole is larger; one that is, is refused before memory is taken for it.
  static constexpr uint64_t most_bytes = uint64_t{4} << 30;

  virtual ~FileSystem() = default;

  // The whole file. A missing file is an error like any other; ask status() first where that matters.
  virtual Result<std::string> read(const std::string& path) = 0;
  struct Content {
    FileStatus status;  // of exactly the file that was read
    std::string bytes;
  };
  // The whole file under exactly this name. No file: status.exists is false. What is no regular file (a symbolic link,
  // which is not followed, a directory, a pipe) has a status, and no bytes.
  virtual Result<Content> read_content(const std::string& path) = 0;
  // `size` bytes from `offset` on; fewer when the file ends before.
  virtual Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) = 0;
  // The whole file as memory that the system reads where it is looked at. Whoever replaces such a file does so by
  // renaming another over it: bytes that are written into it show here, and one cut short ends the process. A disk that
  // maps nothing reads.
  virtual Result<SharedBytes> map(const std::string& path) {
    Result<std::string> bytes = read(path);
    if (!bytes) return bytes.error();
    return SharedBytes(*std::move(bytes));
  }
  // Replaces the file at once or not at all: writes a private temporary beside it (mode 0600), flushes it to the disk,
  // and renames it. On failure the temporary is removed and the old file is untouched.
  virtual Status write_atomically(const std::string& path, std::string_view bytes) = 0;
  // Adds to the end of the file, which is created where it is missing. On a local disk `bytes` come as a whole, whoever
  // else appends; a disk that cannot append writes the file anew.
  virtual Status append(const std::string& path, std::string_view bytes) {
    std::string whole;
    if (status(path).exists) {
      Result<std::string> old = read(path);
      if (!old) return old.error();
      whole = *std::move(old);
    }
    return write_atomically(path, whole.append(bytes));
  }
  // The same, but a file that is there stays as it is, and the result is false. Holds on network disks: a reply that
  // got lost is not taken for a failure, and of several writers one creates the file.
  virtual Result<bool> create_atomically(const std::string& path, std::string_view bytes) = 0;
  // Sets the time of the last write to now.
  virtual Status touch(const std::string& path) = 0;
  // Creates the directory and its missing parents with mode 0700.
  virtual Status make_directories(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;  // names, sorted
  virtual Status remove(const std::string& path) = 0;  // a file, or a directory that is empty
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual FileStatus status(const std::string& path) = 0;         // does not follow a final symlink
  virtual FileStatus target_status(const std::string& path) = 0;  // follows it

  // Takes an exclusive lock between processes, and between callers in one process, on a lock file that it creates and
  // that disappears with the lock. Null: someone else holds it, and lives. An error: locking does not work here. A
  // process that is forked meanwhile holds nothing. A link or an empty directory in the place of the lock file, which
  // nobody can hold, is removed.
  virtual Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) = 0;
  // Removes a lock file, or a temporary of write_atomically, that a killed process left behind. False: a living process
  // holds it, or it is gone. An error: locking does not work here, so nobody can tell, or it is no file.
  virtual Result<bool> remove_abandoned(const std::string& path) = 0;
};

// Whether a file's name is that of a temporary of write_atomically, as a process that was killed leaves behind.
bool is_temporary_name(std::string_view name);
// What such a name begins with, for a file that is to be called `name`.
std::string temporary_prefix(std::string_view name);

// The real one.
FileSystem& real_file_system();

}  // namespace epifuse
