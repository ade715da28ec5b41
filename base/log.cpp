#include "base/log.h"

#include <cstdio>
#include <fmt/format.h>
#include <string>

#include "base/printable.h"

namespace epifuse {

LogSink stderr_log(LogLevel level) {
  return [level](LogLevel of_line, std::string_view text) {
    if (of_line > level) return;
    constexpr std::string_view names[] = {"error", "warning", "info", "debug"};
    // fwrite rather than fmt::print, which throws: a closed or full stderr must not change how a call ends.
    const std::string line = fmt::format("epifuse: {}: {}\n", names[static_cast<size_t>(of_line)], printable(text));
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
}

}  // namespace epifuse
