// Internal to the resolver: reports each mistake once, although a function's body is walked at every call and a file's
// definitions for every kernel.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

namespace epifuse::semantics {

class Reporter {
 public:
  explicit Reporter(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void error(const Span& where, std::string message, std::string hint = "") {
    for (const Diagnostic& known : diagnostics_.all())
      if (known.where.file == where.file && known.where.offset == where.offset && known.message == message) return;
    diagnostics_.error(where, std::move(message), std::move(hint));
  }
  bool has_errors() const { return diagnostics_.has_errors(); }

 private:
  Diagnostics& diagnostics_;
};

// The hint for a name that means nothing: the one of `names` that was probably meant, in quotes, else `otherwise`.
inline std::string did_you_mean(std::string_view word, const std::vector<std::string>& names,
                                std::string otherwise = "") {
  // Any single letter is near any other.
  const std::string near = word.size() > 1 ? nearest(word, names) : "";
  return near.empty() ? otherwise : fmt::format("did you mean '{}'?", near);
}

}  // namespace epifuse::semantics
