// A CTA on the host: its threads are fibers of one thread, which take turns whenever they meet at a barrier or exchange
// values in a warp. Shared memory is a vector of bytes; shared variables of a kernel are static.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace host {

struct Index {
  unsigned x = 0;
};

class Cta {
 public:
  // Runs body() in every thread; `block` is blockIdx.x. A fault of the body that leaves threads waiting for ones that
  // have ended, or warps that disagree, is told by the return value.
  static bool run(unsigned threads, unsigned block, const std::function<void()>& body);

  static Cta& current() { return *current_; }

  unsigned threads() const { return static_cast<unsigned>(fibers_.size()); }

  Index thread, block;
  std::vector<uint8_t> shared = std::vector<uint8_t>(1 << 16);

  void barrier(int id, unsigned threads);
  // What all lanes of the caller's warp gave.
  const uint32_t* exchange(uint32_t value);

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool ended = false;
  };
  struct Meeting {
    unsigned arrived = 0, generation = 0;
    uint32_t given[32], taken[32];
  };

  void yield();
  static void enter();

  static inline Cta* current_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Meeting> warps_;
  std::map<int, Meeting> barriers_;
  ucontext_t scheduler_;
  const std::function<void()>* body_ = nullptr;
  bool moved_ = false;  // something happened since the last round of all fibers
};

inline void Cta::enter() {
  (*current_->body_)();
  current_->fibers_[current_->thread.x].ended = true;
  current_->moved_ = true;
  current_->yield();
}

inline void Cta::yield() { swapcontext(&fibers_[thread.x].context, &scheduler_); }

inline bool Cta::run(unsigned threads, unsigned block, const std::function<void()>& body) {
  constexpr size_t stack_bytes = 64 << 10;
  Cta cta;
  current_ = &cta;
  cta.block.x = block;
  cta.body_ = &body;
  cta.fibers_.resize(threads);
  cta.warps_.resize((threads + 31) / 32);
  for (Fiber& fiber : cta.fibers_) {
    fiber.stack.reset(new char[stack_bytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Cta::enter, 0);
  }
  unsigned running = threads;
  while (running > 0) {
    cta.moved_ = false;
    running = 0;
    for (unsigned i = 0; i < threads; ++i) {
      if (cta.fibers_[i].ended) continue;
      cta.thread.x = i;
      swapcontext(&cta.scheduler_, &cta.fibers_[i].context);
      running += !cta.fibers_[i].ended;
    }
    if (running > 0 && !cta.moved_) break;
  }
  current_ = nullptr;
  return running == 0;
}

inline void Cta::barrier(int id, unsigned threads) {
  Meeting& meeting = barriers_[id];
  const unsigned generation = meeting.generation;
  moved_ = true;
  if (++meeting.arrived == threads) {
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  while (meeting.generation == generation) yield();
  moved_ = true;
}

inline const uint32_t* Cta::exchange(uint32_t value) {
  Meeting& warp = warps_[thread.x / 32];
  const unsigned generation = warp.generation;
  warp.given[thread.x % 32] = value;
  moved_ = true;
  if (++warp.arrived == 32) {
    std::memcpy(warp.taken, warp.given, sizeof warp.taken);
    warp.arrived = 0;
    ++warp.generation;
  } else {
    while (warp.generation == generation) yield();
    moved_ = true;
  }
  return warp.taken;
}

}  // namespace host
