// Stand-in: the consumer's end of the ring of full-tile inputs, without what reads them.
#pragma once

#include "pipeline/ring.cuh"

namespace epifuse {

template <int stages, u32 slot_bytes>
struct TileInputs {
  Ring<stages> ring;
  u32 slots;
  RingState<stages> at;

  u32 wait() const {
    ring.wait_full(at);
    return slots + static_cast<u32>(at.stage) * slot_bytes;
  }
  void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ring.release(at.stage);
    at.advance();
  }
};

}  // namespace epifuse
