// fork(): what a process must not take along. Threads do not come with a fork, and what they held stays held for ever
// in the child: mutexes, locks on files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace epifuse {

// How many forks lie between this process and the first one that asked. An object that remembers the number at its
// making knows, without a system call, whether it is used by a child of the process that made it.
uint64_t fork_count();

// For an object that does not survive a fork, as a member of it.
class MadeHere {
 public:
  // An error (environment) in a child of the process that made the object. `what` is it: "this Engine".
  Status check(std::string_view what) const;

 private:
  uint64_t made_in_ = fork_count();
};

}  // namespace epifuse
