// Measuring on a real card: what is timed is what was asked for. Times are printed and not judged.
#include "jit/measure.h"

#include <fmt/format.h>

#include "jit/device_problem.h"
#include "jit/host_cost.h"
#include "tests/gpu/support/kernels.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Timed {
  jit::CompiledKernelPtr compiled =
      compile_spec(file_text("specs/moe_fc1_swiglu.epi"), {{"E", 4}, {"K", 512}, {"I", 512}});
  jit::LoadedKernel kernel = must(engine().load(compiled, gpu().device));
  jit::LaunchSequence form{kernel};

  jit::DeviceProblem problem(std::vector<int64_t> counts) const {
    jit::InputOptions options;
    options.counts = std::move(counts);
    options.repeat_after = 1 << 14;
    return must(jit::DeviceProblem::make(compiled->planned.graph, options, {}, gpu().device));
  }
};

}  // namespace

TEST_CASE("a launch takes about as long as its replay, and twice the work twice as long as once") {
  const Timed timed;
  jit::DeviceProblem problem = timed.problem({2000, 1000, 0, 3000});
  const jit::BoundSequence call = must(problem.bind(timed.form));
  const jit::Contender direct{"direct", [&](cuda::Stream stream) { return call.launch(stream); }};
  const jit::Contender twice{"twice", [&](cuda::Stream stream) {
                               if (Status once = call.launch(stream); !once) return once;
                               return call.launch(stream);
                             }};
  jit::MeasureOptions options;
  options.sensors = jit::sensors_of(*gpu().device);
  options.warm_seconds = 0.2;
  options.least_seconds = 0.1;
  const std::vector<jit::Contender> contenders = {direct, must(jit::replayed(gpu().device, direct)),
                                                  must(jit::replayed(gpu().device, twice))};
  for (const bool hot : {true, false}) {
    const jit::Measurement measured = must(hot ? jit::measure_hot(gpu().device, contenders, options)
                                               : jit::measure_at_full_clock(gpu().device, contenders, options));
    for (size_t i = 0; i < contenders.size(); ++i) {
      const jit::Distribution& ms = measured.milliseconds[i];
      fmt::print("{} {}: {:.4f} ms, quartiles {:.4f} to {:.4f}\n", hot ? "hot" : "full clock", contenders[i].name,
                 ms.median, ms.low, ms.high);
      CHECK(ms.count >= (hot ? options.rounds : options.full_clock_rounds));
      CHECK(ms.median > 0);
    }
    const jit::GpuConditions& state = measured.conditions;
    fmt::print("  {:.0f} MHz, {:.0f} W, {} samples\n", state.sm_clock_mhz.value_or(0), state.watts.value_or(0),
               state.samples);
    // Twice the work is more, however the card's clock moved meanwhile.
    CHECK(measured.milliseconds[2].median > measured.milliseconds[1].median);
  }
}

TEST_CASE("what a launch costs the host") {
  const Timed timed;
  jit::DeviceProblem problem = timed.problem({1, 1, 1, 1});
  const jit::HostCost cost = must(jit::measure_host_cost(engine(), timed.kernel, problem, {2000, 200}));
  fmt::print("{} driver calls: {:.3f} us; launch {:.3f}, rebind and launch {:.3f}, bind and launch {:.3f}\n",
             cost.driver_calls, cost.bare.median, cost.launch.median, cost.rebind_and_launch.median,
             cost.bind_and_launch.median);
  CHECK(cost.driver_calls >= 1);
  CHECK(cost.bare.count == 10);
  CHECK(cost.bare.median > 0);
}
