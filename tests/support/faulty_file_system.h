// A disk in front of another one, for tests: it counts every call, and fails those that the test chooses.
#pragma once

#include <atomic>
#include <climits>

#include "base/file_system.h"

namespace epifuse::test {

class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& under) : under_(under) {}

  struct Counts {
    std::atomic<int> reads{0}, writes{0}, directories{0}, lists{0}, removes{0}, renames{0}, locks{0}, touches{0},
        target_statuses{0};
  };
  Counts counts;

  // How many calls of a kind succeed before all others of it fail, with the reason a real disk would give.
  std::atomic<int> good_reads{INT_MAX}, good_writes{INT_MAX}, good_renames{INT_MAX}, good_locks{INT_MAX},
      good_lists{INT_MAX};
  std::string write_problem = "No space left on device";
  size_t longest_read = SIZE_MAX;  // of read_content: the file became shorter meanwhile

  Result<std::string> read(const std::string& path) override {
    if (counts.reads++ >= good_reads) return environment_error("cannot read " + path + ": Stale file handle");
    return under_.read(path);
  }
  Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) override {
    if (counts.reads++ >= good_reads) return environment_error("cannot read " + path + ": Input/output error");
    return under_.read_part(path, offset, size);
  }
  Result<Content> read_content(const std::string& path) override {
    if (counts.reads++ >= good_reads) return environment_error("cannot read " + path + ": Stale file handle");
    Result<Content> content = under_.read_content(path);
    if (content && content->bytes.size() > longest_read) content->bytes.resize(longest_read);
    return content;
  }
  Result<bool> create_atomically(const std::string& path, std::string_view bytes) override {
    if (counts.writes++ >= good_writes) return environment_error("cannot write " + path + ": " + write_problem);
    return under_.create_atomically(path, bytes);
  }
  Status touch(const std::string& path) override {
    ++counts.touches;
    return under_.touch(path);
  }
  Status write_atomically(const std::string& path, std::string_view bytes) override {
    if (counts.writes++ >= good_writes) return environment_error("cannot write " + path + ": " + write_problem);
    return under_.write_atomically(path, bytes);
  }
  Status make_directories(const std::string& path) override {
    ++counts.directories;
    return under_.make_directories(path);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    if (counts.lists++ >= good_lists) return environment_error("cannot list " + directory + ": Stale file handle");
    return under_.list(directory);
  }
  Status remove(const std::string& path) override {
    ++counts.removes;
    return under_.remove(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (counts.renames++ >= good_renames)
      return environment_error("cannot rename " + from + ": Device or resource busy");
    return under_.rename(from, to);
  }
  FileStatus status(const std::string& path) override { return under_.status(path); }
  FileStatus target_status(const std::string& path) override {
    ++counts.target_statuses;
    return under_.target_status(path);
  }
  Result<bool> remove_abandoned(const std::string& path) override {
    if (counts.locks++ >= good_locks) return environment_error("cannot lock " + path + ": No locks available");
    return under_.remove_abandoned(path);
  }
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    if (counts.locks++ >= good_locks) return environment_error("cannot lock " + path + ": No locks available");
    return under_.try_lock(path);
  }

 private:
  FileSystem& under_;
};

}  // namespace epifuse::test
