#include "tools/worker_pool.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <list>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/ensure.h"

namespace epifuse::tools {
namespace {

constexpr uint64_t bytes_of_worker = uint64_t{200} << 20;

bool write_all(int to, const void* from, size_t size) {
  const char* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t done = ::write(to, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

bool read_all(int from, void* into, size_t size) {
  char* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t done = ::read(from, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

// A process that takes numbers of tasks and gives back texts, each behind its length.
struct Worker {
  pid_t pid = -1;
  int tasks = -1, results = -1;  // ends of pipes
  std::optional<size_t> busy;    // with which task
};

[[noreturn]] void serve(int tasks, int results, const std::function<std::string(size_t)>& work) {
  uint64_t task = 0;
  while (read_all(tasks, &task, sizeof task)) {
    const std::string output = work(task);
    const uint64_t size = output.size();
    if (!write_all(results, &size, sizeof size) || !write_all(results, output.data(), output.size())) break;
  }
  std::fflush(stderr);
  // No destructors and no buffers of the parent's.
  ::_exit(0);
}

// A machine may have no descriptor or no process left: `why` says so, and there is no worker.
std::optional<Worker> start(const std::list<Worker>& others, const std::function<std::string(size_t)>& work,
                            std::string& why) {
  int tasks[2] = {-1, -1}, results[2] = {-1, -1};
  const auto refuse = [&](std::string_view what) {
    why = fmt::format("no {} for a process that compiles: {}", what, std::strerror(errno));
    for (const int end : {tasks[0], tasks[1], results[0], results[1]})
      if (end >= 0) ::close(end);
    return std::nullopt;
  };
  if (::pipe(tasks) != 0 || ::pipe(results) != 0) return refuse("pipe");
  std::fflush(nullptr);
  Worker worker;
  worker.pid = ::fork();
  if (worker.pid < 0) return refuse("room");
  if (worker.pid == 0) {
    // An end of another's pipe that stayed open here would keep that one from seeing its end.
    for (const Worker& other : others) {
      ::close(other.tasks);
      ::close(other.results);
    }
    ::close(tasks[1]);
    ::close(results[0]);
    serve(tasks[0], results[1], work);
  }
  ::close(tasks[0]);
  ::close(results[1]);
  worker.tasks = tasks[1];
  worker.results = results[0];
  return worker;
}

bool give(Worker& worker, size_t task) {
  const uint64_t number = task;
  worker.busy = task;
  return write_all(worker.tasks, &number, sizeof number);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return fmt::format("the process that compiled was ended by signal {} ({}{})", number, ::strsignal(number),
                       number == SIGKILL ? "; was memory short?" : "");
  }
  return fmt::format("the process that compiled ended with status {}", WEXITSTATUS(status));
}

std::string stop(Worker& worker) {
  ::close(worker.tasks);
  ::close(worker.results);
  int status = 0;
  while (::waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return how_it_ended(status);
}

// The workers' pipes may break; that is an answer and no reason to end.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  ~IgnoredPipeSignal() { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

// The number in a file of the kernel's, in bytes; nothing when it says "max" or is not there.
std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

int usual_workers(int cores, uint64_t available) {
  const uint64_t fit = available == 0 ? static_cast<uint64_t>(cores) : available / bytes_of_worker;
  return static_cast<int>(std::clamp<uint64_t>(fit, 1, static_cast<uint64_t>(std::max(1, cores))));
}

uint64_t available_memory() {
  uint64_t available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string name, line; file >> name; std::getline(file, line))
    if (uint64_t kilobytes = 0; name == "MemAvailable:" && file >> kilobytes) available = kilobytes << 10;
  const auto most = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (most && used) {
    const uint64_t left = *most > *used ? *most - *used : 1;
    available = available == 0 ? left : std::min(available, left);
  }
  return available;
}

void run_in_processes(size_t count, int workers, const std::function<std::string(size_t)>& work,
                      const std::function<void(TaskResult)>& finished, const Waiting& patience) {
  const IgnoredPipeSignal ignored;
  std::list<Worker> running;
  size_t next = 0;
  const auto fill = [&] {
    while (next < count && running.size() < static_cast<size_t>(std::max(1, workers))) {
      std::string why;
      if (std::optional<Worker> worker = start(running, work, why)) {
        running.push_back(*worker);
        give(running.back(), next++);
      } else if (running.empty()) {
        finished({next++, true, std::move(why)});
      } else {
        return;  // those that there are go on
      }
    }
  };
  fill();
  while (!running.empty()) {
    std::vector<pollfd> waiting;
    for (const Worker& worker : running) waiting.push_back({worker.results, POLLIN, 0});
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(patience.after.count()));
    if (ready == 0 && patience.say) {
      std::vector<std::pair<size_t, int>> tasks;
      for (const Worker& worker : running) tasks.emplace_back(*worker.busy, worker.pid);
      patience.say(tasks);
    }
    if (ready <= 0) continue;
    size_t at = 0;
    for (auto worker = running.begin(); worker != running.end(); ++at) {
      if (waiting[at].revents == 0) {
        ++worker;
        continue;
      }
      TaskResult result{*worker->busy, false, ""};
      uint64_t size = 0;
      bool alive = read_all(worker->results, &size, sizeof size);
      if (alive) {
        result.output.resize(size);
        alive = read_all(worker->results, result.output.data(), size);
      }
      const bool more = alive && next < count;
      if (more) {
        // One that dies before it takes the task is seen by its closed pipe, the next time around.
        give(*worker, next++);
        ++worker;
      } else {
        const std::string end = stop(*worker);
        if (!alive) result = {result.task, true, end};
        worker = running.erase(worker);
      }
      finished(std::move(result));
    }
    fill();
  }
}

}  // namespace epifuse::tools
