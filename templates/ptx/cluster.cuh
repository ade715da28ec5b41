// A cluster of CTAs: who one is in it, meeting the others, and arriving at their barriers.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

EPIFUSE_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all CTAs of the cluster.
EPIFUSE_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive;\n"
      "barrier.cluster.wait;" ::
          : "memory");
}

// At the barrier that lies where `barrier` does, in the CTA of that rank. Not qualified by a scope: that takes a third
// of a main loop's speed, and what the arrival tells of, reads of shared memory that have ended, needs none.
EPIFUSE_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

}  // namespace epifuse::ptx
