// What state a GPU was in while something was measured on it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/gpu_sensors.h"

namespace epifuse::jit {

// A card is hot when it cannot hold its clock any more: when the median of its SM clock is below this.
inline constexpr double hot_below_mhz = 1500;

// Medians of what the sensors said. Empty: unknown.
struct GpuConditions {
  std::optional<double> sm_clock_mhz, watts, celsius;
  int samples = 0;

  bool hot() const { return sm_clock_mhz && *sm_clock_mhz < hot_below_mhz; }
};

GpuConditions conditions_of(const std::vector<runtime::SensorReading>& readings);

using Sensors = std::function<runtime::SensorReading()>;

// Reads sensors on a thread of its own, from construction until stop().
class ConditionSampler {
 public:
  explicit ConditionSampler(Sensors sensors, double interval_seconds = 0.01);  // no sensors: nothing is sampled
  ~ConditionSampler();
  ConditionSampler(const ConditionSampler&) = delete;
  ConditionSampler& operator=(const ConditionSampler&) = delete;

  GpuConditions stop();

 private:
  void sample(double interval_seconds);

  Sensors sensors_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::vector<runtime::SensorReading> readings_;  // of the thread, until it has ended
  std::thread thread_;
};

}  // namespace epifuse::jit
