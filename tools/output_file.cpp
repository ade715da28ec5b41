#include "tools/output_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>

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
  return real;
}

Status check_not_replaced(const std::string& file, const std::string& spec) {
  std::error_code failed;  // one of them is missing: they are not the same
  if (fs::equivalent(file, spec, failed) && !failed)
    return user_error(fmt::format("cannot write '{}': it is the spec that is read", file));
  return {};
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
