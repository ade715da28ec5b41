// All cores for a list of independent tasks.
#pragma once

#include <cstdint>
#include <functional>

namespace epifuse::interpreter {

// Threads to use when nobody says: one per core that this process may run on.
int default_threads();

// Calls body(task) for every task in [0, tasks), each once, on up to `threads` threads (0: default_threads()), in no
// order. An exception of a task is thrown again here, after all threads have stopped.
void parallel_for(int64_t tasks, int threads, const std::function<void(int64_t)>& body);

}  // namespace epifuse::interpreter
