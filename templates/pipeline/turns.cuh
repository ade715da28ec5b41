// Turns of two consumer warpgroups in the pingpong schedule: while one multiplies, the other runs its epilogue. A
// warpgroup waits for its turn before its main loop and passes it on after its last wgmma is committed.
#pragma once

#include "ptx/sync.cuh"

namespace epifuse {

struct Turns {
  static constexpr int threads = 256;
  static constexpr int first_barrier = 4;  // named barriers 4 and 5; 0 is __syncthreads
  int self;                                // 0 or 1

  // Warpgroup 1 lets warpgroup 0 go first.
  EPIFUSE_DEVICE void open() const {
    if (self == 1) ptx::named_barrier_arrive(first_barrier, threads);
  }
  EPIFUSE_DEVICE void wait() const { ptx::named_barrier_sync(first_barrier + self, threads); }
  EPIFUSE_DEVICE void pass() const { ptx::named_barrier_arrive(first_barrier + (self ^ 1), threads); }

  // Takes up the turn that was passed on last and that nobody needs, so that no barrier is left half arrived at.
  // `tiles`: how many the CTA had in all.
  EPIFUSE_DEVICE void close(int tiles) const {
    if (self == (tiles & 1)) wait();
  }
};

}  // namespace epifuse
