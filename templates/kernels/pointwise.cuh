// What a pointwise kernel is made of. The kernel itself is spelled by the emitter: a grid-stride loop over items, each
// of them an element, a run, a block or a reduced element (lowering/pointwise_plan.h).
#pragma once

#include "epilogue/math.cuh"
#include "pointwise/groups.cuh"
#include "pointwise/memory.cuh"
#include "pointwise/quantise.cuh"
#include "pointwise/reduce.cuh"
#include "pointwise/rotate.cuh"
#include "ptx/launch.cuh"

namespace epifuse::pointwise {

constexpr int block_threads = 256;

// The first item of a thread (or of its warp), and the distance to its next.
template <bool warps>
EPIFUSE_DEVICE i64 first_item() {
  constexpr int per_block = warps ? block_threads / warp_size : block_threads;
  return static_cast<i64>(blockIdx.x) * per_block + threadIdx.x / (warps ? warp_size : 1);
}
template <bool warps>
EPIFUSE_DEVICE i64 item_stride() {
  return static_cast<i64>(gridDim.x) * (warps ? block_threads / warp_size : block_threads);
}

EPIFUSE_DEVICE int lane_index() { return static_cast<int>(threadIdx.x % warp_size); }

// Takes the fastest axis off a number of elements: the place on it is returned. Most divisions fit in 32 bits, where
// they are several times cheaper.
EPIFUSE_DEVICE int take(i64& rest, int size) {
  const u64 all = static_cast<u64>(rest);
  if (all >> 32 == 0) {
    const u32 quotient = static_cast<u32>(all) / static_cast<u32>(size);
    const int place = static_cast<int>(static_cast<u32>(all) - quotient * static_cast<u32>(size));
    rest = quotient;
    return place;
  }
  const i64 quotient = rest / size;
  const int place = static_cast<int>(rest - quotient * size);
  rest = quotient;
  return place;
}

}  // namespace epifuse::pointwise
