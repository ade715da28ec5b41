// Log lines for people, on stderr or to a callback of the API; silent below the level that EPIFUSE_LOG sets (warn).
#pragma once

#include <functional>
#include <string_view>

#include "base/settings.h"

namespace epifuse {

using LogSink = std::function<void(LogLevel, std::string_view)>;

// A sink that prints "epifuse: warning: …" lines of `level` and above to stderr; where that cannot be written, they are
// lost, and nothing else is.
LogSink stderr_log(LogLevel level);

}  // namespace epifuse
