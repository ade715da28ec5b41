// Stand-in: the index of the fiber that runs, its warp, and the barriers of the host's block of threads.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

inline int thread_index_now() { return static_cast<int>(threadIdx.x); }

inline int warp_uniform(int value) { return __shfl_sync(~0u, value, 0); }

// In the first lane of a warp that has come together.
inline bool elect() {
  __syncwarp();
  return threadIdx.x % 32 == 0;
}

template <int registers>
void give_registers() {}
template <int registers>
void take_registers() {}

inline void named_barrier_arrive(int id, int threads) { host::Block::current_block->arrive(id, threads); }

inline void named_barrier_sync(int id, int threads) { host::Block::current_block->sync(id, threads); }

}  // namespace epifuse::ptx
