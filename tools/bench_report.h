// What bench has to say, in text and in JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/kernel_bench.h"

namespace epifuse::tools {

// The card, and what ran on it.
struct BenchEnvironment {
  runtime::DeviceInfo gpu;
  int cuda_version = 0;  // of the driver, 1000 * major + 10 * minor
  std::string driver;    // empty: unknown
  std::string nvrtc;     // of the compiler; kernels may come from the cache
  double max_clock_mhz = 0;
  std::optional<double> power_limit_watts;
};

std::string bench_text(const KernelBench& bench);

// A JSON object with one entry of "kernels" for each.
std::string bench_json(const BenchEnvironment& environment, const BenchSetting& setting,
                       const std::vector<KernelBench>& benches);

}  // namespace epifuse::tools
