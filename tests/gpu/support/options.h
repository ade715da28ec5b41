// What the command line of the GPU tests says besides Catch's own options.
#pragma once

#include <cstdint>

namespace epifuse::test {

struct RandomSpecOptions {
  uint64_t first_seed = 0;
  uint64_t seeds = 300;
};

// Set by main before any test runs.
inline RandomSpecOptions& random_spec_options() {
  static RandomSpecOptions options;
  return options;
}

}  // namespace epifuse::test
