// A GPU's block of threads on the host: what pointwise kernels and the sinks of epilogues use of CUDA, so that
// generated kernels and templates run in a test.
//
// The threads of a block are fibers of one host thread. Each runs until it must wait for others: at __syncthreads for
// all of the block, at a named barrier for as many as it says, at a shuffle for its warp, or for a condition. Blocks
// run one after the other. A thread that leaves the kernel no longer counts, as on the device. Threads that wait for
// each other for ever end the test. The blocks of a cluster run side by side, and have fibers and shared memory (a
// half of its addresses each) in one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __align__(bytes)
#define __grid_constant__
#define __launch_bounds__(...)

using std::max;
using std::min;

struct Index {
  unsigned x = 0;
};
inline Index threadIdx, blockIdx, gridDim;

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class T>
T __ldg(const T* from) {
  // What the device faults on.
  if (reinterpret_cast<uintptr_t>(from) % sizeof(T) != 0) std::abort();
  return *from;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
// Each rounds once: the host contracts nothing across a call's result that is stored.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }

namespace host {

constexpr unsigned warp_size = 32;

class Block {
 public:
  // `ctas` blocks of so many threads, the first of them `first`.
  Block(unsigned threads, const std::function<void()>& body, unsigned ctas = 1, unsigned first = 0)
      : body_(body), threads_(threads), first_(first), fibers_(threads * ctas), barriers_(named_barriers * ctas) {
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      fiber.stack.reset(new char[stack_bytes]);
      getcontext(&fiber.context);
      fiber.context.uc_stack = {fiber.stack.get(), 0, stack_bytes};
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
  }

  void run() {
    current_block = this;
    while (step()) {
    }
    for (const Fiber& fiber : fibers_)
      if (fiber.state != State::done) std::abort();  // threads wait for each other for ever
  }

  unsigned rank() const { return current_ / threads_; }  // of the running thread's block in its cluster

  void sync() { wait(State::at_barrier); }
  void sync_cluster() { wait(State::at_cluster_barrier); }
  void sync(int barrier, int threads) {
    fibers_[current_].barrier = own(barrier);
    barriers_[own(barrier)].wanted = threads;
    wait(State::at_named_barrier);
  }
  // Counts at a named barrier without waiting there.
  void arrive(int barrier, int threads) {
    barriers_[own(barrier)].wanted = threads;
    ++barriers_[own(barrier)].arrived;
  }

  void wait_until(const std::function<bool()>& holds) {
    if (holds()) return;
    fibers_[current_].holds = &holds;
    wait(State::at_condition);
  }

  // 0: warps run in their order. Otherwise one warp or another stands still at every turn, by a seed.
  static inline uint32_t stalls = 0;

  // What every lane of the warp gave, in turn.
  uint64_t* exchange(uint64_t value) {
    Fiber& fiber = fibers_[current_];
    const unsigned turn = fiber.shuffles++ % 2;  // nobody is two shuffles ahead of a lane that has not read
    Warp& warp = warps_[current_ / warp_size];
    warp.values[turn][current_ % warp_size] = value;
    wait(State::at_shuffle);
    return warps_[current_ / warp_size].values[turn];
  }

  static inline Block* current_block = nullptr;

 private:
  static constexpr size_t stack_bytes = 64 * 1024;
  static constexpr unsigned named_barriers = 16;  // of a block
  enum class State { ready, at_barrier, at_cluster_barrier, at_named_barrier, at_shuffle, at_condition, done };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state = State::ready;
    unsigned shuffles = 0;
    size_t barrier = 0;
    const std::function<bool()>* holds = nullptr;
  };
  struct NamedBarrier {
    int wanted = 0, arrived = 0;
  };
  struct Warp {
    uint64_t values[2][warp_size];
  };

  size_t own(int barrier) const { return rank() * named_barriers + static_cast<size_t>(barrier); }

  static void enter() {
    Block& block = *current_block;
    block.body_();
    block.fibers_[block.current_].state = State::done;
  }

  void wait(State state) {
    const unsigned self = current_;
    fibers_[self].state = state;
    swapcontext(&fibers_[self].context, &scheduler_);
  }

  // Runs what can run, and lets pass who waits for nobody any more. False when nothing moved.
  bool step() {
    bool moved = false;
    uint32_t stalled = 0;  // warps
    if (stalls != 0) stalled = (stalls = stalls * 1664525 + 1013904223) >> 16;
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      if (fiber.state == State::at_condition && (*fiber.holds)()) fiber.state = State::ready;
      if (fiber.state != State::ready) continue;
      if (stalled >> (i / warp_size % 16) & 1) {
        moved = true;
        continue;
      }
      current_ = i;
      threadIdx.x = i % threads_;
      blockIdx.x = first_ + i / threads_;
      swapcontext(&scheduler_, &fibers_[i].context);
      moved = true;
    }
    const auto all = static_cast<unsigned>(fibers_.size());
    moved = release(0, all, State::at_cluster_barrier) || moved;
    for (unsigned first = 0; first < all; first += threads_)
      moved = release(first, first + threads_, State::at_barrier) || moved;
    for (unsigned first = 0; first < all; first += warp_size)
      moved = release(first, first + warp_size, State::at_shuffle) || moved;
    for (size_t barrier = 0; barrier < barriers_.size(); ++barrier) moved = release(barrier) || moved;
    return moved;
  }

  // A named barrier, at which as many threads have come as it waits for.
  bool release(size_t barrier) {
    const auto waits = [&](const Fiber& fiber) {
      return fiber.state == State::at_named_barrier && fiber.barrier == barrier;
    };
    NamedBarrier& at = barriers_[barrier];
    const auto waiting = std::count_if(fibers_.begin(), fibers_.end(), waits);
    if (waiting + at.arrived == 0 || waiting + at.arrived != at.wanted) return false;
    at.arrived = 0;
    for (Fiber& fiber : fibers_)
      if (waits(fiber)) fiber.state = State::ready;
    return true;
  }

  bool release(unsigned begin, unsigned end, State state) {
    bool any = false;
    for (unsigned i = begin; i < end; ++i) {
      if (fibers_[i].state != State::done && fibers_[i].state != state) return false;
      any = any || fibers_[i].state == state;
    }
    for (unsigned i = begin; any && i < end; ++i)
      if (fibers_[i].state == state) fibers_[i].state = State::ready;
    return any;
  }

  const std::function<void()>& body_;
  const unsigned threads_, first_;
  std::vector<Fiber> fibers_;
  Warp warps_[32];
  std::vector<NamedBarrier> barriers_;
  ucontext_t scheduler_;
  unsigned current_ = 0;
};

// In clusters of `ctas` blocks.
inline void launch(unsigned grid, unsigned threads, const std::function<void()>& body, unsigned ctas = 1) {
  gridDim.x = grid;
  for (unsigned first = 0; first < grid; first += ctas) Block(threads, body, ctas, first).run();
}

template <class T>
T shuffled(T value, const std::function<unsigned(unsigned)>& from) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const unsigned lane = threadIdx.x % warp_size;
  const uint64_t* all = Block::current_block->exchange(bits);
  std::memcpy(&value, &all[from(lane)], sizeof value);
  return value;
}

// Exact conversions, given by the test: by the number of a storage type.
inline uint32_t (*encode)(int storage, double value) = nullptr;
inline double (*decode)(int storage, uint32_t code) = nullptr;

}  // namespace host

inline void __syncthreads() { host::Block::current_block->sync(); }
inline void __syncwarp() { host::Block::current_block->exchange(0); }
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return host::shuffled(value, [=](unsigned) { return static_cast<unsigned>(lane); });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  return host::shuffled(value, [=](unsigned lane) { return lane < distance ? lane : lane - distance; });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return host::shuffled(value, [=](unsigned lane) { return lane ^ mask; });
}

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}

extern "C" void use_conversions(uint32_t (*encode)(int, double), double (*decode)(int, uint32_t)) {
  host::encode = encode;
  host::decode = decode;
}
