// The templates of tiles, compiled for the host: the words of CUDA that they use, before them; and, by the order of
// include folders, host/ptx and host/atom in the place of the files whose instructions a host lacks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#define __device__
#define __forceinline__ inline

using std::max;
using std::min;

// A shuffle among threads that run one behind the other: each gets what the other gave when it was run last, so that a
// chain of n shuffles is right once all have run n + 1 times.
inline std::array<std::array<float, 1024>, 128> shuffle_given;
inline size_t shuffle_index = 0;  // set to 0 before a thread runs
float __shfl_xor_sync(unsigned mask, float value, int lane_mask);

template <class T>
T __ldg(const T* from) {
  return *from;
}

#include "pipeline/depth_walk.cuh"
#include "pipeline/tile_walk.cuh"
#include "tile/accumulators.cuh"
#include "tile/operands.cuh"

inline float __shfl_xor_sync(unsigned, float value, int lane_mask) {
  const auto thread = static_cast<size_t>(epifuse::ptx::current_thread);
  shuffle_given.at(thread).at(shuffle_index) = value;
  return shuffle_given.at(thread ^ static_cast<size_t>(lane_mask)).at(shuffle_index++);
}
