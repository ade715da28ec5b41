#include "base/log.h"

#include <cstdio>
#include <fmt/format.h>

namespace epifuse {

LogSink stderr_log(LogLevel level) {
  return [level](LogLevel of_line, std::string_view text) {
    if (of_line > level) return;
    constexpr std::string_view names[] = {"error", "warning", "info", "debug"};
    fmt::print(stderr, "epifuse: {}: {}\n", names[static_cast<size_t>(of_line)], text);
  };
}

}  // namespace epifuse
