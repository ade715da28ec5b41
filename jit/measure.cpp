// The order of turns, and the events around them.
#include "jit/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "runtime/device_buffer.h"

namespace epifuse::jit {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A contender with its events. Two turns may be under way, so that the GPU never waits for the host to read a time.
struct Entry {
  const Contender* contender;
  std::vector<runtime::Timer> timers;  // 2
  int launches = 1;                    // of a turn
  std::vector<double> milliseconds;    // of one launch, by turn
};

class Race {
 public:
  static Result<Race> make(const runtime::DevicePtr& device, const std::vector<Contender>& contenders) {
    Result<runtime::OwnedStream> stream = runtime::make_stream(device);
    if (!stream) return stream.error();
    Race race(device, *std::move(stream));
    for (const Contender& contender : contenders) {
      Entry entry{&contender, {}, 1, {}};
      for (int i = 0; i < 2; ++i) {
        Result<runtime::Timer> timer = runtime::Timer::make(device);
        if (!timer) return timer.error();
        entry.timers.push_back(*std::move(timer));
      }
      race.entries_.push_back(std::move(entry));
    }
    return race;
  }

  std::vector<Entry>& entries() { return entries_; }
  cuda::Stream stream() const { return stream_.get(); }

  // How many launches make a turn of the wanted length. Each contender runs once before it is timed: a first launch
  // may have to load code.
  Status choose_launches(double turn_milliseconds) {
    constexpr int most = 256;  // fewer than a stream's queue holds
    for (Entry& entry : entries_) {
      if (Status run = entry.contender->enqueue(stream()); !run) return run;
      if (Status timed = enqueue_turn(entry, 0); !timed) return timed;
      const Result<double> once = entry.timers[0].milliseconds();
      if (!once) return once.error();
      entry.launches =
          std::clamp(static_cast<int>(std::min<double>(most, std::ceil(turn_milliseconds / *once))), 2, most);
    }
    return {};
  }

  // One turn of each, every other round in the reverse order; times of the round before are collected meanwhile.
  Status round() {
    const size_t slot = rounds_ % 2;
    for (size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[slot == 0 ? i : entries_.size() - 1 - i];
      if (Status run = enqueue_turn(entry, slot); !run) return run;
    }
    ++rounds_;
    return rounds_ > 1 ? collect(1 - slot) : Status{};
  }

  // Collects what is still under way. Behind it a new series of rounds may begin.
  Status finish() {
    if (rounds_ > 0)
      if (Status collected = collect((rounds_ - 1) % 2); !collected) return collected;
    rounds_ = 0;
    return {};
  }

  Status enqueue_turn(Entry& entry, size_t slot) {
    if (Status started = entry.timers[slot].start(stream()); !started) return started;
    for (int i = 0; i < entry.launches; ++i)
      if (Status run = entry.contender->enqueue(stream()); !run) return run;
    return entry.timers[slot].stop(stream());
  }

  Status collect(size_t slot) {
    for (Entry& entry : entries_) {
      const Result<double> all = entry.timers[slot].milliseconds();
      if (!all) return all.error();
      entry.milliseconds.push_back(*all / entry.launches);
    }
    return {};
  }

  Measurement result(GpuConditions conditions) {
    Measurement measurement;
    measurement.conditions = conditions;
    for (Entry& entry : entries_) measurement.milliseconds.push_back(distribution(std::move(entry.milliseconds)));
    return measurement;
  }

 private:
  Race(runtime::DevicePtr device, runtime::OwnedStream stream)
      : device_(std::move(device)), stream_(std::move(stream)) {}

  runtime::DevicePtr device_;
  runtime::OwnedStream stream_;
  std::vector<Entry> entries_;
  size_t rounds_ = 0;
};

}  // namespace

Result<Contender> replayed(const runtime::DevicePtr& device, const Contender& contender) {
  const Result<runtime::OwnedStream> stream = runtime::make_stream(device);
  if (!stream) return stream.error();
  Result<runtime::CapturedGraph> graph =
      runtime::CapturedGraph::capture(device, stream->get(), [&] { return contender.enqueue(stream->get()); });
  if (!graph) return graph.error();
  auto shared = std::make_shared<const runtime::CapturedGraph>(*std::move(graph));
  return Contender{contender.name, [shared](cuda::Stream on) { return shared->replay(on); }};
}

Result<Measurement> measure_hot(const runtime::DevicePtr& device, const std::vector<Contender>& contenders,
                                const MeasureOptions& options) {
  Result<Race> race = Race::make(device, contenders);
  if (!race) return race.error();
  if (Status chosen = race->choose_launches(options.turn_milliseconds); !chosen) return chosen.error();

  for (const auto start = Clock::now(); seconds_since(start) < options.warm_seconds;)
    if (Status run = race->round(); !run) return run.error();
  if (Status done = race->finish(); !done) return done.error();
  for (Entry& entry : race->entries()) entry.milliseconds.clear();

  ConditionSampler sampler(options.sensors);
  const auto start = Clock::now();
  for (int rounds = 0; rounds < options.rounds || seconds_since(start) < options.least_seconds; ++rounds)
    if (Status run = race->round(); !run) return run.error();
  if (Status done = race->finish(); !done) return done.error();
  return race->result(sampler.stop());
}

Result<Measurement> measure_at_full_clock(const runtime::DevicePtr& device, const std::vector<Contender>& contenders,
                                          const MeasureOptions& options) {
  // A single launch behind an idle stream would begin when the host gets to it, with that time inside the measurement.
  // So the stream is given something to do first, which takes longer than a launch does on the host, and which leaves
  // nothing of the last launch in the L2.
  constexpr size_t cover_bytes = size_t{512} << 20;
  Result<runtime::DeviceBuffer> cover = runtime::DeviceBuffer::allocate(device, cover_bytes);
  if (!cover) return cover.error();
  Result<Race> race = Race::make(device, contenders);
  if (!race) return race.error();
  const auto enqueue_cover = [&] {
    const runtime::CurrentContext scope(*device);
    auto code = scope.code();
    if (code == cuda::Code::success)
      code = device->driver().memset_d8_async(cover->pointer(), 0, cover_bytes, race->stream());
    return runtime::check(device->driver(), code, "filling memory in front of a measurement");
  };

  ConditionSampler sampler(options.sensors);
  for (int round = 0; round <= options.full_clock_rounds; ++round) {
    for (Entry& entry : race->entries()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
      if (Status run = enqueue_cover(); !run) return run.error();
      if (Status run = race->enqueue_turn(entry, 0); !run) return run.error();
      const Result<double> once = entry.timers[0].milliseconds();
      if (!once) return once.error();
      if (round > 0) entry.milliseconds.push_back(*once);  // the first may have to load code
    }
  }
  return race->result(sampler.stop());
}

Sensors sensors_of(const runtime::Device& device) {
  const Result<runtime::Nvml> nvml = runtime::load_nvml();
  if (!nvml) return {};
  const Result<runtime::GpuSensors> sensors = runtime::GpuSensors::open(*nvml, device);
  if (!sensors) return {};
  return [sensors = *sensors] { return sensors.read(); };
}

}  // namespace epifuse::jit
