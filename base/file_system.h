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

namespace epifuse {

struct FileStatus {
  bool exists = false;
  bool is_directory = false;
  bool is_symlink = false;
  uint32_t owner = 0;  // uid
  uint32_t mode = 0;   // permission bits
  uint64_t size = 0;
  int64_t modified = 0;  // seconds since the epoch
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
  // `size` bytes from `offset` on; fewer when the file ends before.
  virtual Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) = 0;
  // Replaces the file at once or not at all: writes a private temporary beside it (mode 0600), flushes it to the disk,
  // and renames it. On failure the temporary is removed and the old file is untouched.
  virtual Status write_atomically(const std::string& path, std::string_view bytes) = 0;
  // Creates the directory and its missing parents with mode 0700.
  virtual Status make_directories(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;  // names, sorted
  virtual Status remove(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual FileStatus status(const std::string& path) = 0;  // does not follow a final symlink

  // Takes an exclusive lock between processes, and between callers in one process, on a lock file that it creates and
  // that disappears with the lock. Null: someone else holds it. An error: locking does not work here.
  virtual Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) = 0;
};

// Whether a file's name is that of a temporary of write_atomically, as a process that was killed leaves behind.
bool is_temporary_name(std::string_view name);

// The real one.
FileSystem& real_file_system();

}  // namespace epifuse
