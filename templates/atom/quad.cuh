// Lanes of a quad that exchange registers, to put wgmma's order of columns into that of memory.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

// Swaps `b` of the lower lane with `a` of the upper one.
template <class T>
EPIFUSE_DEVICE void exchange(T& a, T& b, bool upper, int lane_mask) {
  const T got = __shfl_xor_sync(~0u, upper ? a : b, lane_mask);
  a = upper ? got : a;
  b = upper ? b : got;
}

}  // namespace epifuse
