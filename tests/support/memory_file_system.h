// A disk in memory, for tests: files and directories by path. Its owner and modes are set as the test wants them.
#pragma once

#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <unistd.h>

#include "base/file_system.h"

namespace epifuse::test {

class MemoryFileSystem : public FileSystem {
 public:
  struct Node {
    std::string bytes;
    FileStatus status;
  };

  // Direct access, for a test that plants a file, damages one, or makes a path a symbolic link.
  void put(const std::string& path, std::string bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    put_locked(path, std::move(bytes));
  }
  Node& node(const std::string& path) { return nodes_[path]; }
  std::map<std::string, Node>& nodes() { return nodes_; }
  static constexpr uint64_t block = 512;  // files take whole ones
  // Seconds since the epoch that the next file is written at; each file a second later than the one before.
  void set_clock(int64_t now) { clock_ = now - 1; }
  bool exists(const std::string& path) { return status(path).exists; }

  Result<std::string> read(const std::string& path) override { return read_part(path, 0, most_bytes); }

  Result<std::string> read_part(const std::string& path, uint64_t offset, uint64_t size) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto place = nodes_.find(path);
    if (place == nodes_.end() || place->second.status.is_directory) return missing("open", path);
    const std::string& bytes = place->second.bytes;
    return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
  }

  Result<Content> read_content(const std::string& path) override {
    Content content{status(path), ""};
    if (!content.status.exists || content.status.is_symlink || content.status.is_directory) return content;
    Result<std::string> bytes = read(path);
    if (!bytes) return bytes.error();
    content.bytes = *std::move(bytes);
    return content;
  }

  Result<bool> create_atomically(const std::string& path, std::string_view bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!nodes_.contains(parent(path))) return missing("create", path);
    if (nodes_.contains(path)) return false;
    put_locked(path, std::string(bytes));
    return true;
  }

  Status touch(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto place = nodes_.find(path);
    if (place == nodes_.end()) return missing("set the time of", path);
    place->second.status.modified = ++clock_;
    return {};
  }

  Status write_atomically(const std::string& path, std::string_view bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!nodes_.contains(parent(path))) return missing("create", path);
    put_locked(path, std::string(bytes));
    return {};
  }

  Status make_directories(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    make_directory_locked(path);
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto place = nodes_.find(directory);
    if (place == nodes_.end() || !place->second.status.is_directory) return missing("list", directory);
    std::vector<std::string> names;  // sorted, because the map is
    for (const auto& [path, node] : nodes_) {
      if (path != directory && parent(path) == directory) names.push_back(path.substr(path.rfind('/') + 1));
    }
    return names;
  }

  Status remove(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (nodes_.erase(path) == 0) return missing("remove", path);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto place = nodes_.find(from);
    if (place == nodes_.end()) return missing("rename", from);
    nodes_[to] = place->second;
    nodes_.erase(from);
    return {};
  }

  FileStatus status(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto place = nodes_.find(path);
    if (place == nodes_.end()) return {};
    FileStatus status = place->second.status;
    status.size = place->second.bytes.size();
    status.allocated = (status.size + block - 1) / block * block;
    return status;
  }
  FileStatus target_status(const std::string& path) override { return status(path); }

  Result<bool> remove_abandoned(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    return !locked_.contains(path) && nodes_.erase(path) > 0;
  }

  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!locked_.insert(path).second) return std::unique_ptr<FileLock>();
    return std::unique_ptr<FileLock>(std::make_unique<Lock>(*this, path));
  }

 private:
  struct Lock : FileLock {
    Lock(MemoryFileSystem& disk, std::string path) : disk(disk), path(std::move(path)) {}
    ~Lock() override {
      const std::lock_guard<std::mutex> guard(disk.mutex_);
      disk.locked_.erase(path);
    }
    MemoryFileSystem& disk;
    std::string path;
  };

  static std::string parent(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
  }
  static Error missing(std::string_view action, const std::string& path) {
    return environment_error("cannot " + std::string(action) + " " + path + ": No such file or directory");
  }
  void make_directory_locked(const std::string& path) {
    if (nodes_.contains(path)) return;
    if (path != "/") make_directory_locked(parent(path));
    Node& node = nodes_[path];
    node.status.exists = node.status.is_directory = true;
    node.status.owner = ::geteuid();
    node.status.mode = 0700;
  }
  void put_locked(const std::string& path, std::string bytes) {
    make_directory_locked(parent(path));
    Node& node = nodes_[path];
    node.bytes = std::move(bytes);
    node.status.exists = true;
    node.status.owner = ::geteuid();
    node.status.mode = 0600;
    node.status.modified = ++clock_;
  }

  std::mutex mutex_;
  std::map<std::string, Node> nodes_;
  std::set<std::string> locked_;
  int64_t clock_ = std::time(nullptr);
};

}  // namespace epifuse::test
