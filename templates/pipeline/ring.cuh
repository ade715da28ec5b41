// A ring of shared-memory stages between a producer warp and consumer warps: a full and an empty barrier for each
// stage, and the phase that goes with them. This is the only place that counts phases.
//
// The producer waits with parity 1 first, which passes on a fresh barrier: all stages start empty.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"

namespace epifuse {

template <int stages>
struct RingState {
  int stage = 0;
  u32 phase = 0;

  // Behind so many stages.
  static EPIFUSE_DEVICE RingState behind(int count) { return {count % stages, static_cast<u32>(count / stages) & 1}; }

  EPIFUSE_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Passes over `count` stages that somebody else consumes.
  EPIFUSE_DEVICE void skip(int count) {
    const int to = stage + count;
    phase ^= (to / stages) & 1;
    stage = to % stages;
  }
};

// `barriers`: shared address of 2 * stages mbarriers, full ones first.
template <int stages>
struct Ring {
  static constexpr u32 barrier_bytes = 16 * stages;
  u32 barriers;

  EPIFUSE_DEVICE u32 full(int stage) const { return barriers + 8 * stage; }
  EPIFUSE_DEVICE u32 empty(int stage) const { return barriers + 8 * (stages + stage); }

  // By one thread; `consumers`: arrivals that empty a stage.
  EPIFUSE_DEVICE void init(u32 consumers) const {
    for (int i = 0; i < stages; ++i) {
      ptx::mbarrier_init(full(i), 1);
      ptx::mbarrier_init(empty(i), consumers);
    }
  }

  // Producer: waits until the stage is empty; then one thread announces `bytes`, and the copies complete on
  // full(stage).
  EPIFUSE_DEVICE void wait_empty(const RingState<stages>& at) const {
    ptx::mbarrier_wait(empty(at.stage), at.phase ^ 1);
  }
  EPIFUSE_DEVICE void expect(const RingState<stages>& at, u32 bytes) const {
    ptx::mbarrier_arrive_expect(full(at.stage), bytes);
  }
  // Producer whose stage is written by the one thread that calls this.
  EPIFUSE_DEVICE void publish(const RingState<stages>& at) const { ptx::mbarrier_arrive(full(at.stage)); }

  // Consumer.
  EPIFUSE_DEVICE void wait_full(const RingState<stages>& at) const { ptx::mbarrier_wait(full(at.stage), at.phase); }
  EPIFUSE_DEVICE void release(int stage) const { ptx::mbarrier_arrive(empty(stage)); }
  EPIFUSE_DEVICE void release_in(u32 rank, int stage) const { ptx::mbarrier_arrive_at(empty(stage), rank); }
};

}  // namespace epifuse
