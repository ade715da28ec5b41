// Named barriers, register reallocation, and the few special registers that the kernels read.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

EPIFUSE_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

EPIFUSE_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int registers>
EPIFUSE_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
EPIFUSE_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

EPIFUSE_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// The thread index, read anew. The epilogue asks here instead of keeping addresses: whatever it derives from a value
// known before the main loop would be hoisted above it and hold registers all through it.
EPIFUSE_DEVICE int thread_index_now() {
  u32 index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return static_cast<int>(index);
}

// In front of what must stay behind its branch: the compiler would rather do all of it and select.
EPIFUSE_DEVICE void stay_a_branch() { asm volatile("" ::: "memory"); }

// The same value in all lanes, and the compiler knows it: what depends on it stays in uniform registers.
EPIFUSE_DEVICE int warp_uniform(int value) { return __shfl_sync(~0u, value, 0); }

// True in one lane of a converged warp.
EPIFUSE_DEVICE bool elect() {
  u32 chosen;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(chosen));
  return chosen;
}

}  // namespace epifuse::ptx
