// Stand-in: the threads and barriers of tests/reductions/host/cta.h.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

inline int thread_index_now() { return static_cast<int>(threadIdx.x); }
inline void named_barrier_sync(int id, int threads) {
  host::Cta::current().barrier(id, static_cast<unsigned>(threads));
}

}  // namespace epifuse::ptx
