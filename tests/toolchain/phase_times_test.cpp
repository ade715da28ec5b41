// The table of phases as NVRTC writes it, and tables that it does not.
#include "compiler/toolchain/phase_times.h"

#include <string>

#include "tests/support/catch.h"

using namespace epifuse::toolchain;

TEST_CASE("each phase is read off its line") {
  const PhaseTimes times = parse_phase_times(
      "/epifuse/k.cu, CUDA C++ Frontend, 130, ms\n"
      "/epifuse/k.cu, NVVM Optimizer, 592.5, ms\n"
      "/epifuse/k.cu, PTX Translation, 494, ms\n");
  CHECK(times.cuda == 130);
  CHECK(times.nvvm == 592.5);
  CHECK(times.ptxas == 494);
}

TEST_CASE("a phase that comes twice adds up, and a program's name may hold commas") {
  const PhaseTimes times = parse_phase_times("a, b, PTX Translation, 1, ms\r\na, b, PTX Translation, 2, ms");
  CHECK(times.ptxas == 3);
  CHECK(times.nvvm == 0);
}

TEST_CASE("what is no such line is passed over") {
  for (const char* table : {"", "\n\n", "ms", ", ms\n", "k, PTX Translation, 5, s\n", "k, PTX Translation, five, ms\n",
                            "k, PTX Translation, 5x, ms\n", "k, Something else, 5, ms\n", ",,,,\n"}) {
    INFO(table);
    const PhaseTimes times = parse_phase_times(table);
    CHECK(times.cuda + times.nvvm + times.ptxas == 0);
  }
}
