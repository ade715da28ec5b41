#include "tools/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace epifuse::tools {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // as many as Linux follows

// What the links of the last part of a path lead to, which need not exist: weakly_canonical stops at such a link.
Result<std::string> behind_links(FileSystem& disk, const std::string& path) {
  fs::path real = path;
  for (int links = 0; disk.status(real.string()).is_symlink; ++links) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(real, failed);
    if (failed) return user_error(fmt::format("cannot write '{}': {}", path, failed.message()));
    if (links == most_links) return user_error(fmt::format("cannot write '{}': too many symbolic links", path));
    real = real.parent_path() / target;
  }
  return real.string();
}

// The process's mask can only be read by setting it. Nothing else creates files when outputs are written.
mode_t file_mask() {
  const mode_t mask = ::umask(022);
  ::umask(mask);
  return mask;
}

// Makes a file beside the one that is to be written, as writing does, and removes it. The system alone knows whether it
// would: rights, read-only disks, names that are too long.
Status try_to_write(const std::string& real, const std::string& path) {
  const fs::path file = real;
  const fs::path beside =
      file.parent_path() / fmt::format("{}{}-0", temporary_prefix(file.filename().string()), ::getpid());
  struct stat ignored {};
  int failed = 0;
  // The file's own name is not tried, or it would be there for a moment.
  if (::lstat(real.c_str(), &ignored) != 0 && errno != ENOENT)
    failed = errno;
  else if (const int opened = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); opened >= 0) {
    ::close(opened);
    ::unlink(beside.c_str());
  } else if (errno != EEXIST) {
    failed = errno;
  }
  return failed == 0 ? Status()
                     : user_error(fmt::format("cannot write '{}': {}", path, std::generic_category().message(failed)));
}

void remove_abandoned(FileSystem& disk, const std::string& path) {
  const fs::path file = path;
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const Result<std::vector<std::string>> names = disk.list(folder);
  if (!names) return;
  const std::string prefix = temporary_prefix(file.filename().string());
  for (const std::string& name : *names)
    if (name.starts_with(prefix) && is_temporary_name(name)) (void)disk.remove_abandoned(folder + "/" + name);
}

}  // namespace

Result<std::string> output_file(FileSystem& disk, const std::string& path) {
  // Writing replaces a name; through a link it is the link's target that the user means.
  const Result<std::string> target = behind_links(disk, path);
  if (!target) return target.error();
  const std::string& real = *target;
  if (real.back() == '/') return user_error(fmt::format("cannot write '{}': it names a directory", path));
  std::error_code failed;
  const fs::file_status status = fs::status(real, failed);
  if (fs::is_directory(status)) return user_error(fmt::format("cannot write '{}': it is a directory", path));
  if (fs::exists(status) && !fs::is_regular_file(status))
    return user_error(fmt::format("cannot write '{}': it is not a regular file", path));
  const fs::path folder = fs::path(real).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failed))
    return user_error(fmt::format("cannot write '{}': there is no directory '{}'", path, folder.string()));
  if (Status possible = try_to_write(real, path); !possible) return possible.error();
  return real;
}

Status check_output_directory(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::exists(status) && !fs::is_directory(status))
    return user_error(fmt::format("cannot write into '{}': it is not a directory", path));
  // One that is missing is made later, with its parents.
  fs::path there = fs::path(path).lexically_normal();
  while (!there.empty() && there != there.parent_path() && !fs::exists(there, failed)) there = there.parent_path();
  if (!there.empty() && !fs::is_directory(there, failed))
    return user_error(fmt::format("cannot write into '{}': '{}' is not a directory", path, there.string()));
  return try_to_write((there / "file").string(), path);
}

Status make_output_directory(const std::string& path) {
  if (Status checked = check_output_directory(path); !checked) return checked;
  std::error_code failed;
  fs::create_directories(path, failed);
  return failed ? user_error(fmt::format("cannot create the directory '{}': {}", path, failed.message())) : Status();
}

Status write_output(FileSystem& disk, const std::string& path, std::string_view bytes) {
  const FileStatus before = disk.status(path);
  if (Status written = disk.write_atomically(path, bytes); !written) return written;
  remove_abandoned(disk, path);
  std::error_code ignored;  // a file system without modes still has the file
  fs::permissions(path, static_cast<fs::perms>(before.exists ? before.mode : 0666 & ~file_mask()), ignored);
  return {};
}

}  // namespace epifuse::tools
