// The main of the GPU tests. Without a usable GPU it prints SKIP and the reason, and returns 77, which ctest shows as
// skipped. Any failure returns 1: Catch's own count of failures could be 77.
#ifdef EPIFUSE_CATCH2_V3
#include <catch2/catch_session.hpp>
namespace command_line = Catch::Clara;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
namespace command_line = Catch::clara;
#endif

#include <cstdio>

#include "runtime/device.h"
#include "tests/gpu/support/options.h"

int main(int argc, char** argv) {
  Catch::Session session;
  epifuse::test::RandomSpecOptions& random = epifuse::test::random_spec_options();
  session.cli(session.cli() | command_line::Opt(random.seeds, "count")["--seeds"]("how many random specs (300)") |
              command_line::Opt(random.first_seed, "seed")["--first-seed"]("the first seed of the random specs (0)"));
  if (session.applyCommandLine(argc, argv) != 0) return 1;
  const auto driver = epifuse::runtime::load_driver();
  if (!driver) {
    std::printf("SKIP: %s\n", driver.error().message.c_str());
    return 77;
  }
  const auto device = epifuse::runtime::Device::open(*driver, 0);
  if (!device) {
    std::printf("SKIP: %s\n", device.error().message.c_str());
    return 77;
  }
  return session.run() == 0 ? 0 : 1;
}
