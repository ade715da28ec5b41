// Ordering of warpgroup matrix instructions; the instructions themselves are in atom/wgmma.cuh.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

// Before the first wgmma after other instructions wrote its registers.
EPIFUSE_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
EPIFUSE_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `pending` groups are in flight.
template <int pending>
EPIFUSE_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from moving reads of an accumulator above the wait.
// The same value, of which the compiler knows nothing.
EPIFUSE_DEVICE float opaque(float x) {
  asm volatile("" : "+f"(x));
  return x;
}

EPIFUSE_DEVICE void pin(float& accumulator) { asm volatile("" : "+f"(accumulator)::"memory"); }

}  // namespace epifuse::ptx
