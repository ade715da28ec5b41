// Stand-in: one thread at a time, of which the test says the index.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

inline int current_thread = 0;

inline int thread_index_now() { return current_thread; }
inline void stay_a_branch() {}
inline int warp_uniform(int value) { return value; }

}  // namespace epifuse::ptx
