#include "compiler/interpreter/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

namespace epifuse::interpreter {

int default_threads() {
  cpu_set_t set;
  // hardware_concurrency() counts the machine's cores; a container or taskset may have given us fewer.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(int64_t tasks, int threads, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto work = [&] {
    try {
      for (int64_t task; (task = next.fetch_add(1)) < tasks;) body(task);
    } catch (...) {
      const std::lock_guard lock(failure_lock);
      if (!failure) failure = std::current_exception();
      next = tasks;
    }
  };
  const int64_t count = std::min<int64_t>(threads > 0 ? threads : default_threads(), tasks);
  std::vector<std::thread> others;
  for (int64_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace epifuse::interpreter
