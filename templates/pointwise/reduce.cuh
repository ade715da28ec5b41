// Sums and maxima in a fixed order, whatever the grid.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::pointwise {

// Chains that take turns, so that the longest has only its share of the terms; then, over a warp, a tree.
template <int chains>
struct ChainedSum {
  static_assert(chains == 2 || chains == 4, "a sum of the chains is written for these");
  float chain[chains] = {};

  EPIFUSE_DEVICE void add(float value) {
    const float next = chain[0] + value;
#pragma unroll
    for (int i = 0; i + 1 < chains; ++i) chain[i] = chain[i + 1];
    chain[chains - 1] = next;
  }
  EPIFUSE_DEVICE float result() const {
    if constexpr (chains == 4) return (chain[0] + chain[1]) + (chain[2] + chain[3]);
    return chain[0] + chain[1];
  }
  EPIFUSE_DEVICE float warp_result() const {
    float sum = result();
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    return sum;
  }
};

using Sum = ChainedSum<4>;
// Where a thread has eight sums, and no more registers than that.
using ShortSum = ChainedSum<2>;

// The largest magnitude. As unsigned integers magnitudes are ordered as their values are, and NaN is the largest.
struct Amax {
  u32 bits = 0;

  EPIFUSE_DEVICE void add(float value) { bits = max(bits, __float_as_uint(value) & 0x7fffffffu); }
  EPIFUSE_DEVICE float result() const { return __uint_as_float(bits); }
  EPIFUSE_DEVICE float warp_result() const {
    u32 largest = bits;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      largest = max(largest, __shfl_xor_sync(~0u, largest, distance));
    return __uint_as_float(largest);
  }
};

}  // namespace epifuse::pointwise
