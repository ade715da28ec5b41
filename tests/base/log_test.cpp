// Lines of the log go to stderr where it can be written, and harm nobody where it cannot.
#include "base/log.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.h"

using namespace epifuse;

TEST_CASE("a stderr that is full or closed changes nothing") {
  for (const char* place : {"/dev/full", ""}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (*place != 0)
        ::dup2(::open(place, O_WRONLY), STDERR_FILENO);
      else
        ::close(STDERR_FILENO);
      try {
        stderr_log(LogLevel::warn)(LogLevel::warn, "nobody hears this");
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int outcome = 0;
    REQUIRE(::waitpid(child, &outcome, 0) == child);
    CHECK((WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0));
  }
}
