// Stand-in: the index of the fiber that runs, and the barriers of the host's block of threads.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

inline int thread_index_now() { return static_cast<int>(threadIdx.x); }

inline void named_barrier_sync(int id, int threads) { host::Block::current_block->sync(id, threads); }

}  // namespace epifuse::ptx
