// Tensor maps that are made on the device: changed in shared memory, published to global memory, and acquired by
// whoever reads them. The copy engine reads maps through a proxy of its own, which ordinary fences do not reach.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

// Puts another base address into a map in shared memory, at a multiple of 128.
EPIFUSE_DEVICE void tensor_map_set_address(u32 map, u64 address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(address)
               : "memory");
}

// Copies a map from shared to global memory, both at multiples of 128, and releases it to the copy engines of the GPU.
// All lanes of a converged warp.
EPIFUSE_DEVICE void tensor_map_publish(void* to, u32 from) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          to),
      "r"(from)
      : "memory");
}

// Before a thread's first copy through a map in global memory that another thread or kernel published.
EPIFUSE_DEVICE void tensor_map_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// One of the maps of a table in global memory, for the functions of ptx/tma.cuh.
EPIFUSE_DEVICE const TensorMap& tensor_map_at(const void* maps, int index) {
  return static_cast<const TensorMap*>(maps)[index];
}

}  // namespace epifuse::ptx
