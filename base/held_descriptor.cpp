// The table of descriptors that a fork closes in the child.
#include "base/held_descriptor.h"

#include <atomic>
#include <fmt/format.h>
#include <mutex>
#include <pthread.h>
#include <set>

#include "base/forks.h"

namespace epifuse {
namespace {

struct Table {
  std::mutex mutex;
  std::set<int> held;
  std::atomic<uint64_t> forks{0};
};

// Never destroyed: descriptors may be closed, and processes forked, after the statics are gone.
Table& table() {
  static Table& made = [&]() -> Table& {
    auto* const fresh = new Table;
    ::pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                     [] {
                       Table& ours = table();
                       for (const int descriptor : ours.held) ::close(descriptor);
                       ours.held.clear();
                       ++ours.forks;
                       ours.mutex.unlock();
                     });
    return *fresh;
  }();
  return made;
}

}  // namespace

uint64_t fork_count() { return table().forks.load(std::memory_order_relaxed); }

Status MadeHere::check(std::string_view what) const {
  if (made_in_ == fork_count()) return {};
  return environment_error(
      fmt::format("{} was made before fork(), and its locks, compiler and GPU context belong to the "
                  "parent process; make one in the child ({})",
                  what, ::getpid()));
}

HeldDescriptor::HeldDescriptor(Descriptor descriptor) : descriptor_(std::move(descriptor)), made_in_(fork_count()) {
  if (!descriptor_.valid()) return;
  const std::lock_guard<std::mutex> guard(table().mutex);
  table().held.insert(descriptor_.get());
}

HeldDescriptor::~HeldDescriptor() {
  if (!descriptor_.valid()) return;
  if (!is_ours()) {
    descriptor_.release();  // the number may be another file's by now
    return;
  }
  const std::lock_guard<std::mutex> guard(table().mutex);
  table().held.erase(descriptor_.get());
  (void)descriptor_.close();  // under the mutex: a fork in between would close a number that is free, or another's
}

bool HeldDescriptor::is_ours() const { return made_in_ == fork_count(); }

}  // namespace epifuse
