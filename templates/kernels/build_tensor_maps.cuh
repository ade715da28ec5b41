// A tensor map for each buffer that an array of pointers leads to. TMA wants its maps ready-made and the host does not
// know the pointers, so a launch of its own copies a template map, with the buffer's address in it, once for each
// buffer.
//
// Parameters  arrays of `tensors` elements: map (templates), pointers, maps (where they go, at multiples of 128),
//             byte_offset (of a map's base from its buffer), count (of buffers).
#pragma once

#include "ptx/launch.cuh"
#include "ptx/sync.cuh"
#include "ptx/tensor_map.cuh"

namespace epifuse {

// One warp for each map; a CTA has `warps`.
template <int tensors, int warps, class Parameters>
EPIFUSE_DEVICE void build_tensor_maps(const Parameters& p) {
  __shared__ __align__(128) TensorMap copies[warps];
  ptx::start_launch_behind();  // which waits for the maps
  ptx::wait_for_launches_before();
  const int warp = ptx::warp_uniform(threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  int index = blockIdx.x * warps + warp;
#pragma unroll
  for (int t = 0; t < tensors; ++t) {
    if (index >= 0 && index < p.count[t]) {
      reinterpret_cast<u32*>(&copies[warp])[lane] = reinterpret_cast<const u32*>(&p.map[t])[lane];
      __syncwarp();
      const u32 copy = ptx::shared_address(&copies[warp]);
      if (lane == 0) {
        ptx::tensor_map_set_address(copy, static_cast<const u64*>(p.pointers[t])[index] + p.byte_offset[t]);
      }
      __syncwarp();
      ptx::tensor_map_publish(static_cast<TensorMap*>(p.maps[t]) + index, copy);
    }
    index -= p.count[t];
  }
}

}  // namespace epifuse
