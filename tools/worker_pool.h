// Work in processes: the compiler's front end is under a lock of the whole process, takes some 200 MB, and may crash; a
// process that dies takes one task with it and no more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace epifuse::tools {

// How many processes may compile at the same time: one for each core, as far as `available` bytes of memory go.
int usual_workers(int cores, uint64_t available);
// Bytes of memory that this process may still take, by the machine and by its control group; nothing known: 0.
uint64_t available_memory();

struct TaskResult {
  size_t task = 0;
  bool died = false;   // the process ended, or was ended, in the middle; `output` says how
  std::string output;  // of `work`
};

// Says of the tasks that run, when none has ended for a while: a process may hang, or be stopped.
struct Waiting {
  std::chrono::milliseconds after{60'000};                              // and again after as long
  std::function<void(const std::vector<std::pair<size_t, int>>&)> say;  // tasks, each with its process
};

// Runs work(i) for each task i < count in up to `workers` processes forked from this one, and gives each result to
// `finished` here, in the order they end. Call it while this process has one thread. `work` must not throw. Whatever
// `work` writes to memory is lost; the result is its text.
void run_in_processes(size_t count, int workers, const std::function<std::string(size_t)>& work,
                      const std::function<void(TaskResult)>& finished, const Waiting& waiting = {});

}  // namespace epifuse::tools
