#include "tools/output_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>

namespace epifuse::tools {
namespace {

namespace fs = std::filesystem;

// The process's mask can only be read by setting it. Nothing else creates files when outputs are written.
mode_t file_mask() {
  const mode_t mask = ::umask(022);
  ::umask(mask);
  return mask;
}

}  // namespace

Result<std::string> output_file(FileSystem& disk, const std::string& path) {
  std::string real = path;
  if (disk.status(path).is_symlink) {
    // Writing replaces a name; through a link it is the link's target that the user means.
    std::error_code failed;
    const fs::path target = fs::weakly_canonical(path, failed);
    if (failed) return user_error(fmt::format("cannot write '{}': {}", path, failed.message()));
    real = target.string();
  }
  if (real.back() == '/') return user_error(fmt::format("cannot write '{}': it names a directory", path));
  std::error_code failed;
  const fs::file_status status = fs::status(real, failed);
  if (fs::is_directory(status)) return user_error(fmt::format("cannot write '{}': it is a directory", path));
  if (fs::exists(status) && !fs::is_regular_file(status))
    return user_error(fmt::format("cannot write '{}': it is not a regular file", path));
  const fs::path folder = fs::path(real).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failed))
    return user_error(fmt::format("cannot write '{}': there is no directory '{}'", path, folder.string()));
  return real;
}

Status check_output_directory(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::exists(status) && !fs::is_directory(status))
    return user_error(fmt::format("cannot write into '{}': it is not a directory", path));
  return {};
}

Status make_output_directory(FileSystem& disk, const std::string& path) {
  std::error_code failed;
  if (Status checked = check_output_directory(path); !checked) return checked;
  if (fs::is_directory(path, failed)) return {};
  if (Status made = disk.make_directories(path); !made) return user_error(made.error().message);
  fs::permissions(path, static_cast<fs::perms>(0777 & ~file_mask()), failed);
  return {};
}

Status write_output(FileSystem& disk, const std::string& path, std::string_view bytes) {
  const FileStatus before = disk.status(path);
  if (Status written = disk.write_atomically(path, bytes); !written) return written;
  std::error_code ignored;  // a file system without modes still has the file
  fs::permissions(path, static_cast<fs::perms>(before.exists ? before.mode : 0666 & ~file_mask()), ignored);
  return {};
}

}  // namespace epifuse::tools
