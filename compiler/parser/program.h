// A spec with everything that it uses: the main file and the files behind its `use` lines, each once.
//
// `use "a.epi"` means the file beside the one that says so; where there is none, the file of that name in the library
// embedded in the binary (specs/lib). A cycle, or a file that is nowhere, is an error at the `use`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "base/file_system.h"
#include "base/result.h"
#include "compiler/parser/ast.h"

namespace epifuse {

struct Program {
  struct Unit {
    ast::File tree;
    std::vector<int> uses;  // into units, one for each of the tree's uses; -1: not found
  };
  std::vector<Unit> units;  // the main file is units[0]; never empty

  const ast::File& main() const { return units.front().tree; }
};

// Where specs come from.
class SpecSource {
 public:
  virtual ~SpecSource() = default;
  // The text of a file; nothing when there is no such file, an error when there is one that cannot be read.
  virtual Result<std::optional<std::string>> read(const std::string& path) = 0;
};

class DiskSource : public SpecSource {
 public:
  explicit DiskSource(FileSystem& files) : files_(files) {}
  Result<std::optional<std::string>> read(const std::string& path) override;

 private:
  FileSystem& files_;
};

class MemorySource : public SpecSource {
 public:
  explicit MemorySource(std::map<std::string, std::string> files) : files_(std::move(files)) {}
  Result<std::optional<std::string>> read(const std::string& path) override;

 private:
  std::map<std::string, std::string> files_;
};

// Parses `path` and everything it uses. The error is about the main file alone (it does not exist, it cannot be read);
// all else is a diagnostic, and the program holds what could be read.
Result<Program> load_program(const std::string& path, SpecSource& source, Diagnostics& diagnostics);

// The same for a text that is not a file. `name` is for messages, and its folder is where `use` looks first.
Program load_program(std::string name, std::string text, SpecSource& source, Diagnostics& diagnostics);

// The embedded library: names of its files, and its functions (for hints).
std::vector<std::string> library_files();
bool is_library_file(std::string_view source_name);  // of the name of a unit's source
struct LibraryFunction {
  std::string name, file;
};
std::vector<LibraryFunction> library_functions();

}  // namespace epifuse
