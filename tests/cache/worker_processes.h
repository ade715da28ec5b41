// Processes that share one cache directory, for tests: each is a fork that works and ends, or is killed; what happened
// is in one log file, to which every process appends whole lines in the order in which things happened.
#pragma once

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/file_system.h"
#include "cache/kernel_cache.h"

namespace epifuse::test {

// Runs `work` in a new process, which ends with its result without running the test framework's exit handlers.
template <class Work>
pid_t start_process(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a test that hangs fails
    ::_exit(work() ? 0 : 1);
  }
  return child;
}

inline bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class EventLog {
 public:
  explicit EventLog(std::string path) : path_(std::move(path)) {}

  // One write in append mode: whole lines, in order, whoever writes.
  void add(const std::string& what, const std::string& key) const {
    const std::string line = what + " " + key + " " + std::to_string(::getpid()) + "\n";
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!::write(descriptor, line.data(), line.size());
    ::close(descriptor);
  }

  struct Event {
    std::string what, key;
    pid_t process = 0;
  };
  std::vector<Event> events() const {
    const Result<std::string> text = real_file_system().read(path_);
    std::istringstream lines(text ? *text : "");
    std::vector<Event> events;
    for (Event event; lines >> event.what >> event.key >> event.process;) events.push_back(event);
    return events;
  }
  int count(const std::string& what, const std::string& key, const std::set<pid_t>& except = {}) const {
    const std::vector<Event> all = events();
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const Event& event) {
      return event.what == what && event.key == key && !except.contains(event.process);
    }));
  }

 private:
  std::string path_;
};

// What was made, by the log's "start" and "made".
struct Makes {
  bool one_at_a_time = true;  // none begins while another of its key is under way, unless that one's process was killed
  int cut_off = 0;            // that a kill ended, and somebody else began again
  bool all_ended = true;      // nothing that was cut off is still wanting
};
inline Makes makes_in(const EventLog& log, const std::set<pid_t>& killed) {
  Makes makes;
  std::map<std::string, pid_t> under_way;
  for (const EventLog::Event& event : log.events()) {
    const auto other = under_way.find(event.key);
    if (event.what == "start") {
      makes.one_at_a_time = makes.one_at_a_time && (other == under_way.end() || killed.contains(other->second));
      makes.cut_off += other != under_way.end();
      under_way[event.key] = event.process;
    } else if (other != under_way.end() && other->second == event.process) {
      under_way.erase(other);
    }
  }
  makes.all_ended = under_way.empty();
  return makes;
}

}  // namespace epifuse::test
