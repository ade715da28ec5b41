// bench of one kernel, and what it prints of it, on a driver that makes every measurement 1.5 ms long.
#include "tools/kernel_bench.h"

#include <nlohmann/json.hpp>

#include "jit/tuning_file.h"
#include "tests/jit/support.h"
#include "tests/support/fake_driver.h"
#include "tools/bench_compare.h"
#include "tools/bench_report.h"

namespace epifuse::tools {
namespace {

using namespace test;
using Json = nlohmann::ordered_json;

struct Case {
  Case() : engine(disk) {
    Diagnostics diagnostics;
    program.emplace(program_of(small_spec, diagnostics));
    // Every entry that will be loaded: of the fused kernel, and of the stages.
    add_entries(engine.compile()->image.recipe);
    const auto unfused = jit::compile_unfused(*engine, *program, "", {}, diagnostics, 1);
    REQUIRE(unfused);
    REQUIRE(*unfused);
    for (const jit::CompiledKernelPtr& stage : (**unfused)->stages) add_entries(stage->image.recipe);

    auto device = runtime::Device::open(driver.table(), 0);
    REQUIRE(device);
    setting.gpu.device = *device;
    setting.measure.warm_seconds = setting.measure.least_seconds = setting.measure.pause_seconds = 0;
    setting.measure.rounds = 4;
    setting.measure.sensors = [] { return runtime::SensorReading{1400.0, 699.0, 61.0}; };
    setting.full_clock_mhz = 1980;
    setting.line = &line;
    line.no_full_clock = true;  // it fills memory that the fake driver takes from the host
    line.jobs = 1;
  }
  void add_entries(const LaunchRecipe& recipe) {
    for (const RecipeStep& step : recipe.steps)
      if (step.kind == RecipeStep::Kind::launch) driver.entries[step.entry] = step.parameter_bytes;
  }
  KernelBench run() {
    Diagnostics diagnostics;
    Settings settings;
    Surroundings world{settings, "", disk, nullptr};
    line.expected_rows = 33;
    auto kernels = sized_kernels(*program, line, world, diagnostics);
    REQUIRE(kernels);
    REQUIRE(*kernels);
    auto made = bench_kernel(*engine, *program, (**kernels).front(), setting, diagnostics);
    INFO((made ? std::string() : made.error().message));
    INFO(diagnostics.print());
    REQUIRE(made);
    REQUIRE(*made);
    (*made)->file = "small.epi";
    return **std::move(made);
  }

  FakeDriver driver;  // outlives what the engine has loaded
  MemoryFileSystem disk;
  TestEngine engine;
  std::optional<Program> program;
  CommandLine line;
  BenchSetting setting;
};

TEST_CASE("both forms are timed by replays of graphs") {
  Case c;
  const KernelBench made = c.run();
  REQUIRE(made.forms.size() == 2);
  CHECK(made.forms[0].form == "fused");
  CHECK(made.forms[1].form == "unfused");
  CHECK(made.unfused_problem.empty());
  for (const FormTimes& form : made.forms) {
    CHECK(form.hot.count == 4);
    CHECK(form.hot.median == 0.5);  // a turn of 1.5 ms is three launches
    CHECK(form.full_clock.count == 0);
  }
  // One launch to load it, one to time it, four turns of three.
  CHECK(c.driver.count("graph_launch") == 2 * (2 + 4 * 3));
  CHECK(c.driver.count("stream_begin_capture") == 2);
  CHECK(made.work.flop() == 2.0 * 66 * 64 * 64);
  CHECK(made.hot_clock_mhz == 1400);
  CHECK(made.hot_floor.tensor_ms > made.full_clock_floor.tensor_ms);
}

TEST_CASE("the fused form alone") {
  Case c;
  c.line.no_unfused = true;
  const KernelBench alone = c.run();
  CHECK(alone.forms.size() == 1);
  CHECK(alone.unfused_problem.empty());
}

TEST_CASE("what bench prints holds the times, and is read back by a comparison") {
  Case c;
  const KernelBench made = c.run();
  const std::string text = bench_text(made);
  CHECK(text.find("small (pingpong 128x64") == 0);
  CHECK(text.find("E=2 K=64 N=64; M: 2 groups of 33 rows") != std::string::npos);
  CHECK(text.find("hot, 1400 MHz, 699 W\n") != std::string::npos);
  CHECK(text.find("fused is 1.00 times as fast") != std::string::npos);

  BenchEnvironment environment;
  environment.gpu.name = "Fake GPU";
  const std::string json = bench_json(environment, c.setting, {made});
  const Json document = Json::parse(json);
  const Json& kernel = document.at("kernels").at(0);
  CHECK(kernel.at("plan") == made.compiled->schedule());
  CHECK(kernel.at("request") == jit::tuning_key(made.compiled->planned.request));
  CHECK(kernel.at("plan_text").get<std::string>().starts_with("plan "));
  CHECK(kernel.at("dims") == Json{{"E", 2}, {"K", 64}, {"N", 64}});
  CHECK(kernel.at("counts") == Json{33, 33});
  CHECK(kernel.at("hot").at("is_hot") == true);
  CHECK(kernel.at("full_clock").is_null());
  CHECK(kernel.at("forms").at(1).at("hot").at("median_ms") == 0.5);
  CHECK(kernel.at("forms").at(1).at("full_clock").is_null());
  CHECK(document.at("driver").is_null());

  const Result<Comparison> same = compare_benches(json, "a", json, "b");
  REQUIRE(same);
  REQUIRE(same->forms.size() == 2);
  CHECK(same->forms.front().change_percent() == 0);
  CHECK(same->only_once.empty());
  CHECK(same->conditions.empty());
}

TEST_CASE("the clock is unknown where NVML is missing, and nothing is called hot") {
  Case c;
  c.setting.measure.sensors = nullptr;
  const KernelBench made = c.run();
  CHECK(made.hot_clock_mhz == figures_of(Target{}).hot_clock_mhz);
  CHECK(bench_text(made).find("hot, clock unknown\n") != std::string::npos);
  const Json kernel = Json::parse(bench_json({}, c.setting, {made})).at("kernels").at(0);
  CHECK(kernel.at("hot").at("is_hot").is_null());
}

TEST_CASE("the host's cost instead of times") {
  Case c;
  c.line.host = true;
  const KernelBench made = c.run();
  REQUIRE(made.host);
  CHECK(made.forms.empty());
  CHECK(bench_text(made).find("rebind and launch") != std::string::npos);
  const Json kernel = Json::parse(bench_json({}, c.setting, {made})).at("kernels").at(0);
  CHECK(kernel.at("host").at("launch").at("count") == 50);
  CHECK(!kernel.contains("forms"));
}

}  // namespace
}  // namespace epifuse::tools
