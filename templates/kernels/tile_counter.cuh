// The launch in front of a GEMM whose tiles a counter deals out (pipeline/tile_deal.cuh): the counter begins at 0,
// whatever the workspace holds. It is a launch, not a memset, so that the GEMM may be started meanwhile.
//
// Parameters  tile_counter
#pragma once

#include "ptx/launch.cuh"

namespace epifuse {

constexpr int clearing_threads = 32;

template <class Parameters>
EPIFUSE_DEVICE void clear_tile_counter(const Parameters& p) {
  ptx::start_launch_behind();  // which waits for the counter
  ptx::wait_for_launches_before();
  if (threadIdx.x == 0) *static_cast<u32*>(p.tile_counter) = 0;
}

}  // namespace epifuse
