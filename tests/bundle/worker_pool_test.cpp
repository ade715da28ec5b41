// Work in processes: every task once, and a process that dies takes its own task with it.
#include "tools/worker_pool.h"

#include <csignal>
#include <map>
#include <string>
#include <unistd.h>

#include "tests/support/catch.h"

using namespace epifuse::tools;

namespace {

std::map<size_t, TaskResult> run(size_t count, int workers, const std::function<std::string(size_t)>& work) {
  std::map<size_t, TaskResult> results;
  run_in_processes(count, workers, work, [&](TaskResult result) {
    const size_t task = result.task;
    CHECK(results.emplace(task, std::move(result)).second);
  });
  return results;
}

}  // namespace

TEST_CASE("each task is done once, by as many processes as there may be") {
  for (const int workers : {1, 3, 50}) {
    const auto results =
        run(20, workers, [](size_t task) { return std::to_string(::getpid()) + std::string(task * 10000, 'x'); });
    REQUIRE(results.size() == 20);
    std::map<std::string, int> processes;
    for (const auto& [task, result] : results) {
      CHECK_FALSE(result.died);
      const size_t letters =
          result.output.find('x') == std::string::npos ? 0 : result.output.size() - result.output.find('x');
      CHECK(letters == task * 10000);
      ++processes[result.output.substr(0, result.output.find('x'))];
    }
    CHECK(processes.size() <= static_cast<size_t>(workers));
    CHECK_FALSE(processes.contains(std::to_string(::getpid())));
  }
  CHECK(run(0, 2, [](size_t) { return std::string(); }).empty());
}

TEST_CASE("a process that is killed or leaves fails its task alone") {
  for (const int workers : {1, 2}) {
    const auto results = run(6, workers, [](size_t task) {
      if (task == 1) ::raise(SIGKILL);
      if (task == 4) ::_exit(7);
      return std::string("good");
    });
    REQUIRE(results.size() == 6);
    for (const auto& [task, result] : results) CHECK(result.died == (task == 1 || task == 4));
    CHECK(results.at(1).output == "the process that compiled was ended by signal 9 (Killed; was memory short?)");
    CHECK(results.at(4).output == "the process that compiled ended with status 7");
    CHECK(results.at(5).output == "good");
  }
}

TEST_CASE("a process that does not get on is named, again and again") {
  Waiting patience;
  patience.after = std::chrono::milliseconds(20);
  int said = 0;
  patience.say = [&](const std::vector<std::pair<size_t, int>>& tasks) {
    REQUIRE(tasks.size() == 1);
    CHECK(tasks.front().first == 0);
    if (++said == 3) ::kill(tasks.front().second, SIGCONT);
  };
  std::string output;
  run_in_processes(
      1, 1,
      [](size_t) {
        ::raise(SIGSTOP);
        return std::string("went on");
      },
      [&](TaskResult result) { output = result.output; }, patience);
  CHECK(output == "went on");
  CHECK(said >= 3);
}

TEST_CASE("memory bounds how many there are") {
  constexpr uint64_t gigabyte = uint64_t{1} << 30;
  CHECK(usual_workers(8, 64 * gigabyte) == 8);
  CHECK(usual_workers(8, gigabyte) == 5);
  CHECK(usual_workers(8, 1) == 1);
  CHECK(usual_workers(8, 0) == 8);  // not known
  CHECK(usual_workers(0, gigabyte) == 1);
}
