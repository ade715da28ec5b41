// GPU times of several launches against each other, on one stream of one device.
//
// Hot: first the contenders alone run for some seconds, so that clock and power are those of a card at work; then they
// take turns without pause, in one order and in the reverse (A B C C B A ...), so that none profits from what runs
// before it. SM clock and power are sampled meanwhile.
// At full clock: single launches behind a pause, so that the card never comes to its power limit; what they read is not
// in the L2. Such times say how kernels behave on a card that is not busy; plans are chosen hot.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "jit/distribution.h"
#include "jit/gpu_conditions.h"
#include "runtime/stream.h"

namespace epifuse::jit {

// Something to time: a launch, a sequence of them, or a replay of a graph. `enqueue` puts one of it on the stream and
// waits for nothing.
struct Contender {
  std::string name;
  std::function<Status(cuda::Stream)> enqueue;
};

// The same work as one replay of a graph that is captured from it here, so that no host time is in the measurement.
// What the contender launches must outlive the result.
Result<Contender> replayed(const runtime::DevicePtr& device, const Contender& contender);

struct MeasureOptions {
  Sensors sensors;  // of the device; empty: clock and power stay unknown

  double warm_seconds = 3;
  int rounds = 16;             // turns of each contender, at least
  double least_seconds = 0.5;  // of all rounds together, for the sensors' sake
  // A turn is as many launches as take this long, and at least two.
  double turn_milliseconds = 4;

  int full_clock_rounds = 11;  // single launches of each
  double pause_seconds = 0.02;
};

struct Measurement {
  std::vector<Distribution> milliseconds;  // of one launch of each contender, in their order
  GpuConditions conditions;
};

// Errors are those of the contenders and of the driver.
Result<Measurement> measure_hot(const runtime::DevicePtr& device, const std::vector<Contender>& contenders,
                                const MeasureOptions& options);
Result<Measurement> measure_at_full_clock(const runtime::DevicePtr& device, const std::vector<Contender>& contenders,
                                          const MeasureOptions& options);

// The sensors of a device; empty where NVML is missing.
Sensors sensors_of(const runtime::Device& device);

}  // namespace epifuse::jit
