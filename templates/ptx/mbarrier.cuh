// mbarrier instructions on shared-memory addresses of this CTA.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

EPIFUSE_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

EPIFUSE_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and announces that `bytes` will be written by the copy engine. A box counts in full, also where it reaches
// out of bounds.
EPIFUSE_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

EPIFUSE_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

EPIFUSE_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// Makes the initialisations visible to the copy engine; a CTA barrier must follow before anyone waits.
EPIFUSE_DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// The calling thread's reads of shared memory so far are done before the copy engine writes there, once an arrival
// behind this has told its thread. An arrival alone does not say so: it orders ordinary accesses, and the copy engine's
// are none, so that its box may overtake a load that still waits for its turn.
EPIFUSE_DEVICE void fence_before_copy_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace epifuse::ptx
