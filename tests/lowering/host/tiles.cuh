// The templates of tiles, compiled for the host: the words of CUDA that they use, before them; and, by the order of
// include folders, host/ptx and host/atom in the place of the files whose instructions a host lacks.
#pragma once

#include <algorithm>
#include <cstdint>

#define __device__
#define __forceinline__ inline

using std::max;
using std::min;

template <class T>
T __ldg(const T* from) {
  return *from;
}

#include "pipeline/tile_walk.cuh"
#include "tile/accumulators.cuh"
#include "tile/operands.cuh"
