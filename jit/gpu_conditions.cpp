#include "jit/gpu_conditions.h"

#include <chrono>
#include <utility>

#include "jit/distribution.h"

namespace epifuse::jit {
namespace {

std::optional<double> median_of(const std::vector<runtime::SensorReading>& readings,
                                std::optional<double> runtime::SensorReading::*what) {
  std::vector<double> values;
  for (const runtime::SensorReading& reading : readings)
    if (reading.*what) values.push_back(*(reading.*what));
  if (values.empty()) return std::nullopt;
  return distribution(std::move(values)).median;
}

}  // namespace

GpuConditions conditions_of(const std::vector<runtime::SensorReading>& readings) {
  GpuConditions conditions;
  conditions.sm_clock_mhz = median_of(readings, &runtime::SensorReading::sm_clock_mhz);
  conditions.watts = median_of(readings, &runtime::SensorReading::watts);
  conditions.celsius = median_of(readings, &runtime::SensorReading::celsius);
  conditions.samples = static_cast<int>(readings.size());
  return conditions;
}

ConditionSampler::ConditionSampler(Sensors sensors, double interval_seconds) : sensors_(std::move(sensors)) {
  if (sensors_) thread_ = std::thread([this, interval_seconds] { sample(interval_seconds); });
}

ConditionSampler::~ConditionSampler() { stop(); }

void ConditionSampler::sample(double interval_seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto interval = std::chrono::duration<double>(interval_seconds);
  do {
    lock.unlock();
    const runtime::SensorReading reading = sensors_();
    lock.lock();
    readings_.push_back(reading);
    wake_.wait_for(lock, interval, [this] { return stopped_; });
  } while (!stopped_);
}

GpuConditions ConditionSampler::stop() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  return conditions_of(readings_);
}

}  // namespace epifuse::jit
