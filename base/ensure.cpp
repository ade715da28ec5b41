#include "base/ensure.h"

#include <fmt/format.h>

namespace epifuse {

void fail(std::string_view what, const char* file, int line) {
  throw InternalError(fmt::format("internal error: {} ({}:{})", what, file, line));
}

}  // namespace epifuse
