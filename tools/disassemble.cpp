#include "tools/disassemble.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace epifuse::tools {
namespace {

// File descriptors that close themselves.
struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
};

Error failed(std::string_view doing) {
  return environment_error(fmt::format("nvdisasm: {}: {}", doing, std::generic_category().message(errno)));
}

// A file in memory, so that nothing is left on the disk however this ends.
Status write_in_memory(std::string_view bytes, Descriptor& into) {
  into.number = ::memfd_create("epifuse-cubin", 0);
  if (into.number < 0) return failed("making a file in memory");
  while (!bytes.empty()) {
    const ssize_t written = ::write(into.number, bytes.data(), bytes.size());
    if (written < 0) return failed("writing the cubin");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> find_nvdisasm(FileSystem& disk, const Settings& settings) {
  std::vector<std::string> directories;
  if (!settings.cuda_home.empty()) directories.push_back(settings.cuda_home + "/bin");
  directories.insert(directories.end(), settings.program_directories.begin(), settings.program_directories.end());
  directories.push_back("/usr/local/cuda/bin");
  for (const std::string& directory : directories) {
    const std::string path = directory + "/nvdisasm";
    if (const FileStatus status = disk.status(path); status.exists && !status.is_directory) return path;
  }
  return environment_error(
      "sass needs nvdisasm, which is not installed (looked in CUDA_HOME/bin, PATH and /usr/local/cuda/bin); it comes "
      "with the CUDA toolkit");
}

Result<std::string> disassemble(const std::string& nvdisasm, std::string_view cubin) {
  Descriptor file, read_end, write_end;
  if (Status status = write_in_memory(cubin, file); !status) return status.error();
  int ends[2];
  if (::pipe(ends) != 0) return failed("making a pipe");
  read_end.number = ends[0];
  write_end.number = ends[1];

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.number, STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, read_end.number);
  std::string program = nvdisasm, input = fmt::format("/proc/self/fd/{}", file.number);
  char* arguments[] = {program.data(), input.data(), nullptr};
  pid_t child = 0;
  const int spawned = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  write_end.close();
  if (spawned != 0) return errno = spawned, failed(fmt::format("starting {}", nvdisasm));

  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(read_end.number, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return environment_error(fmt::format("{} could not read the cubin (status {})", nvdisasm, WEXITSTATUS(status)));
  return text;
}

}  // namespace epifuse::tools
