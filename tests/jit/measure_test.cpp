// Statistics, the order of turns, and what is recorded around them, on a driver that makes every interval 1.5 ms long.
#include "jit/measure.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/fake_driver.h"

namespace epifuse::jit {
namespace {

using test::FakeDriver;

TEST_CASE("quantiles are interpolated") {
  const Distribution made = distribution({4, 1, 3, 2});
  CHECK(made.median == 2.5);
  CHECK(made.low == 1.75);
  CHECK(made.high == 3.25);
  CHECK(made.least == 1);
  CHECK(made.most == 4);
  CHECK(made.count == 4);
  CHECK(made.spread() == 1.5 / 2.5);
  CHECK(distribution({7}).median == 7);
  CHECK(distribution({7}).high == 7);
  CHECK(distribution({}).count == 0);
  CHECK(distribution({5, 1, 3}).median == 3);
}

TEST_CASE("conditions are medians of what is known") {
  const GpuConditions conditions = conditions_of({{1500.0, 690.0, {}}, {1300.0, {}, {}}, {1400.0, 700.0, {}}});
  CHECK(conditions.sm_clock_mhz == 1400);
  CHECK(conditions.watts == 695);
  CHECK(!conditions.celsius);
  CHECK(conditions.samples == 3);
  CHECK(conditions.hot());
  CHECK(!conditions_of({{1500.0, {}, {}}}).hot());
  CHECK(!conditions_of({}).hot());  // unknown is not hot
}

TEST_CASE("a sampler reads at least once, and ends when it is told to") {
  ConditionSampler sampler([] { return runtime::SensorReading{1320.0, 699.0, 60.0}; }, 3600);
  const GpuConditions conditions = sampler.stop();
  CHECK(conditions.samples == 1);
  CHECK(conditions.sm_clock_mhz == 1320);
  CHECK(ConditionSampler({}).stop().samples == 0);
}

struct Bench {
  FakeDriver driver;
  runtime::DevicePtr device;
  std::string order;  // a letter for each launch

  Bench() {
    auto opened = runtime::Device::open(driver.table(), 0);
    REQUIRE(opened);
    device = *opened;
  }
  Contender contender(char letter) {
    return {std::string(1, letter), [this, letter](cuda::Stream) {
              order += letter;
              return Status{};
            }};
  }
};

MeasureOptions quick() {
  MeasureOptions options;
  options.warm_seconds = 0;
  options.least_seconds = 0;
  options.rounds = 4;
  options.pause_seconds = 0;
  return options;
}

TEST_CASE("hot: contenders take turns in one order and in the reverse") {
  Bench bench;
  const std::vector<Contender> contenders = {bench.contender('a'), bench.contender('b'), bench.contender('c')};
  MeasureOptions options = quick();
  options.turn_milliseconds = 4;  // three launches of 1.5 ms
  const Result<Measurement> measured = measure_hot(bench.device, contenders, options);
  REQUIRE(measured);
  CHECK(bench.order ==
        "aabbcc"  // one to load it, one to see how long it takes
        "aaabbbccc"
        "cccbbbaaa"
        "aaabbbccc"
        "cccbbbaaa");
  REQUIRE(measured->milliseconds.size() == 3);
  for (const Distribution& one : measured->milliseconds) {
    CHECK(one.count == 4);
    CHECK(one.median == 0.5);  // 1.5 ms for three
  }
  CHECK(!measured->conditions.sm_clock_mhz);
}

TEST_CASE("hot: a long contender is launched twice in a turn") {
  Bench bench;
  const std::vector<Contender> contenders = {bench.contender('a')};
  MeasureOptions options = quick();
  options.turn_milliseconds = 1;
  options.rounds = 2;
  REQUIRE(measure_hot(bench.device, contenders, options));
  CHECK(bench.order == "aaaaaa");
}

TEST_CASE("the warm-up is no part of the figures") {
  Bench bench;
  const std::vector<Contender> contenders = {bench.contender('a')};
  MeasureOptions options = quick();
  options.warm_seconds = 0.02;
  options.rounds = 3;
  const Result<Measurement> measured = measure_hot(bench.device, contenders, options);
  REQUIRE(measured);
  CHECK(measured->milliseconds.front().count == 3);
  CHECK(bench.order.size() > 2 + 3 * 3);
}

TEST_CASE("full clock: single launches, each behind something that keeps the stream busy") {
  Bench bench;
  // The fake driver's memory is the host's, so filling it has to be left out.
  auto table = std::make_shared<runtime::DriverApi>(*bench.driver.table());
  static int fills;
  fills = 0;
  table->memset_d8_async = [](cuda::DevicePointer, unsigned char, size_t, cuda::Stream) {
    ++fills;
    return cuda::Code::success;
  };
  const auto device = runtime::Device::open(table, 0);
  REQUIRE(device);
  const std::vector<Contender> contenders = {bench.contender('a'), bench.contender('b')};
  MeasureOptions options = quick();
  options.full_clock_rounds = 2;
  const Result<Measurement> measured = measure_at_full_clock(*device, contenders, options);
  REQUIRE(measured);
  CHECK(bench.order == "ababab");  // the first round is not counted
  CHECK(fills == 6);
  CHECK(measured->milliseconds[1].count == 2);
  CHECK(measured->milliseconds[1].median == 1.5);
}

TEST_CASE("what a contender says ends the measurement") {
  Bench bench;
  const std::vector<Contender> contenders = {
      bench.contender('a'), {"b", [](cuda::Stream) -> Status { return environment_error("no more"); }}};
  const Result<Measurement> measured = measure_hot(bench.device, contenders, quick());
  REQUIRE(!measured);
  CHECK(measured.error().message == "no more");
}

TEST_CASE("a replayed contender is captured once") {
  Bench bench;
  const Result<Contender> replay = replayed(bench.device, bench.contender('a'));
  REQUIRE(replay);
  CHECK(replay->name == "a");
  CHECK(bench.order == "a");
  const auto stream = runtime::make_stream(bench.device);
  REQUIRE(stream);
  REQUIRE(replay->enqueue(stream->get()));
  REQUIRE(replay->enqueue(stream->get()));
  CHECK(bench.order == "a");
  CHECK(bench.driver.count("graph_launch") == 2);
}

}  // namespace
}  // namespace epifuse::jit
