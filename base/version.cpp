#include "base/version.h"

#ifndef EPIFUSE_COMMIT
#define EPIFUSE_COMMIT "unknown"
#endif

namespace epifuse {

std::string_view commit() { return EPIFUSE_COMMIT; }

}  // namespace epifuse
