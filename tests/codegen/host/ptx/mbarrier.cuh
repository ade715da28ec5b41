// Stand-in: barriers by their shared address. A phase ends when nobody's arrival and no bytes are missing.
#pragma once

#include <map>

#include "ptx/types.cuh"

namespace epifuse::ptx {

struct HostBarrier {
  u32 arrivals = 0, missing = 0, bytes = 0, phase = 0;

  void settle() {
    if (missing != 0 || bytes != 0) return;
    missing = arrivals;
    phase ^= 1;
  }
};
inline std::map<u32, HostBarrier> host_barriers;  // of the block that runs

inline HostBarrier& host_barrier(u32 barrier) {
  const auto found = host_barriers.find(barrier);
  if (found == host_barriers.end()) std::abort();  // nobody has made it
  return found->second;
}

inline void mbarrier_init(u32 barrier, u32 arrivals) { host_barriers[barrier] = {arrivals, arrivals, 0, 0}; }
inline void mbarrier_arrive(u32 barrier) {
  HostBarrier& at = host_barrier(barrier);
  if (at.missing == 0) std::abort();  // the phase has all its arrivals, and waits for bytes
  --at.missing;
  at.settle();
}
inline void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  host_barrier(barrier).bytes += bytes;
  mbarrier_arrive(barrier);
}
// What the copy engine does when a box is there.
inline void mbarrier_complete(u32 barrier, u32 bytes) {
  HostBarrier& at = host_barriers.at(barrier);
  at.bytes -= bytes;
  at.settle();
}
inline void mbarrier_wait(u32 barrier, u32 parity) {
  host_barrier(barrier);
  host::Block::current_block->wait_until([=] { return host_barriers.at(barrier).phase != parity; });
}
inline void fence_mbarrier_init() {}
inline void fence_before_copy_engine() {}

}  // namespace epifuse::ptx
