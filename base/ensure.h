// ensure(): what must hold unless we made a mistake. It throws InternalError, which is caught only in main and at each
// C function, and is reported as a bug of ours (exit code 4), never as the user's.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace epifuse {

struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail(std::string_view what, const char* file, int line);

#define EPIFUSE_ENSURE(condition, what)                            \
  do {                                                             \
    if (!(condition)) ::epifuse::fail((what), __FILE__, __LINE__); \
  } while (false)

}  // namespace epifuse
