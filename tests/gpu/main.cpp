// The main of the GPU tests. Without a usable GPU it prints SKIP and the reason, and returns 77, which ctest shows as
// skipped. Any failure returns 1: Catch's own count of failures could be 77.
#ifdef EPIFUSE_CATCH2_V3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdio>

#include "runtime/device.h"

int main(int argc, char** argv) {
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
  return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
