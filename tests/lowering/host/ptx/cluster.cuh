// Stand-in: which CTA of its cluster a test is in.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

inline u32 rank_in_cluster = 0;

inline u32 cluster_rank() { return rank_in_cluster; }

}  // namespace epifuse::ptx
