// Source texts, places in them, and the list of everything found wrong with them.
//
// All mistakes of a file are kept and printed in one run, each with file, line, column, the line itself, a caret under
// the place, what was expected, and a hint where one can be given.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse {

// A text with a name to print. `use` brings several files into one compilation, so spans point to their file.
struct SourceFile {
  std::string name;
  std::string text;
};

struct LineColumn {
  int line = 1;    // from 1
  int column = 1;  // from 1, in bytes
};

// `length` bytes of `file` from `offset` on. A span without a file belongs to nothing that was written (a default).
struct Span {
  std::shared_ptr<const SourceFile> file;
  size_t offset = 0;
  size_t length = 0;

  LineColumn begin() const;
  LineColumn end() const;
  std::string_view text() const;
};

enum class Severity { error, warning };

struct Diagnostic {
  Severity severity = Severity::error;
  Span where;
  std::string message;
  std::string hint;  // empty: none
  // An error of the numbers that were given, and not of what this version compiles.
  bool of_sizes = false;
};

class Diagnostics {
 public:
  void error(const Span& where, std::string message, std::string hint = "");
  void too_large(const Span& where, std::string message, std::string hint = "");  // an error of sizes
  void warning(const Span& where, std::string message, std::string hint = "");

  bool has_errors() const { return errors_ != 0; }
  const std::vector<Diagnostic>& all() const { return list_; }

  // Every diagnostic in the order of its place, as compilers print them:
  //   file.epi:3:7: error: message
  //     3 |   in x : bf61[M, K]
  //       |          ^~~~
  //     hint: did you mean 'bf16'?
  std::string print() const;

 private:
  std::vector<Diagnostic> list_;
  size_t errors_ = 0;
};

// The entry of `names` closest to `word`, or empty when none is near: for "did you mean".
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace epifuse
