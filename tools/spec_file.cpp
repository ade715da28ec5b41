#include "tools/spec_file.h"

#include <algorithm>
#include <fmt/format.h>

#include "tools/files_read.h"

namespace epifuse::tools {
namespace {

// A spec is written by a person or a small script. What is larger was named by mistake, and its mistakes, one a line,
// would fill the memory.
constexpr uint64_t largest_spec = uint64_t{4} << 20;

bool is_binary(char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t'; }

// The disk, with the checks that tell a spec from some other file before the parser sees it.
class SpecFiles : public SpecSource {
 public:
  explicit SpecFiles(FileSystem& disk) : disk_(disk) {}

  Result<std::optional<std::string>> read(const std::string& path) override {
    const FileStatus status = disk_.status(path);
    if (!status.exists) return std::optional<std::string>();
    if (status.is_directory) return user_error(fmt::format("'{}' is a directory", path));
    // One byte more than allowed is enough to know.
    Result<std::string> text = disk_.read_part(path, 0, largest_spec + 1);
    if (!text) return user_error(text.error().message);
    if (text->size() > largest_spec)
      return user_error(fmt::format("'{}' is no spec: it is larger than {} MiB", path, largest_spec >> 20));
    if (std::any_of(text->begin(), text->end(), is_binary))
      return user_error(fmt::format("'{}' is no spec: it holds control characters, so it is not a text", path));
    return {std::move(*text)};
  }

 private:
  FileSystem& disk_;
};

}  // namespace

Result<Program> read_spec(const std::string& path, FileSystem& disk, Diagnostics& diagnostics,
                          const std::string& output) {
  SpecFiles files(disk);
  Result<Program> program = load_program(path, files, diagnostics);
  if (program)
    if (Status other = check_not_replaced(output, files_read(*program)); !other) return other.error();
  return program;
}

Result<std::string> read_spec_text(const std::string& path, FileSystem& disk) {
  SpecFiles files(disk);
  Result<std::optional<std::string>> text = files.read(path);
  if (!text) return text.error();
  if (!*text) return user_error(fmt::format("there is no file '{}'", path));
  return std::move(**text);
}

Status check_no_used_file_replaced(const std::string& spec, FileSystem& disk, const std::string& output) {
  SpecFiles files(disk);
  Diagnostics ignored;  // of files that cannot be read, which are none to be kept
  const Result<Program> program = load_program(spec, files, ignored);
  if (!program) return program.error();
  std::vector<FileRead> used = files_read(*program);
  used.erase(used.begin());
  return check_not_replaced(output, used);
}

}  // namespace epifuse::tools
