// Buffers for timing, and the driver calls of a launch made again without us, on the fake driver.
#include "jit/host_cost.h"

#include <cstring>

#include "jit/device_problem.h"
#include "tests/jit/support.h"
#include "tests/support/fake_driver.h"

namespace epifuse::jit {
namespace {

using namespace test;

template <class T>
T must(Result<T> result) {
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  return *std::move(result);
}

// A sum over rows needs a workspace and two launches; without it, one.
constexpr auto summing_spec = R"(
kernel summing {
  dim   E = 2, K = 64, N = 64
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  v     = gemm(x, w)
  out y : bf16[M, N] = v
  out s : f32[E, N]  = sum(v)
}
)";

struct Case {
  explicit Case(const char* spec) : engine(disk), compiled(engine.compile(spec)) {
    for (const RecipeStep& step : compiled->image.recipe.steps)
      if (step.kind == RecipeStep::Kind::launch) driver.entries[step.entry] = step.parameter_bytes;
    device = must(runtime::Device::open(driver.table(), 0));
    kernel = must(engine->load(compiled, device));
    data.counts = {{40, 3}};
  }
  DeviceProblem problem() { return must(DeviceProblem::make(compiled->planned.graph, data, {}, device)); }

  FakeDriver driver;  // outlives what the engine has loaded
  MemoryFileSystem disk;
  TestEngine engine;
  CompiledKernelPtr compiled;
  runtime::DevicePtr device;
  LoadedKernel kernel;
  InputOptions data;
};

TEST_CASE("a problem on the device has the inputs, and a copy has them at other addresses") {
  Case c(small_spec);
  DeviceProblem problem = c.problem();
  CHECK(problem.counts() == std::map<std::string, std::vector<int64_t>>{{"M", {40, 3}}});
  const LaunchSequence form(c.kernel);
  REQUIRE(must(problem.add_copy()) == 1);
  const runtime::Arguments first = must(problem.arguments(form)), second = must(problem.arguments(form, 1));
  const interpreter::Buffers inputs = must(make_inputs(c.compiled->planned.graph, c.data));
  REQUIRE(first.tensors.size() == c.compiled->image.recipe.tensors.size());
  for (size_t i = 0; i < first.tensors.size(); ++i) {
    const runtime::TensorArgument &a = first.tensors[i], &b = second.tensors[i];
    CAPTURE(a.name);
    CHECK(a.name == c.compiled->image.recipe.tensors[i].name);
    CHECK(a.pointer % 256 == 0);
    CHECK(a.pointer != b.pointer);
    const auto input = inputs.find(a.name);
    if (input == inputs.end()) continue;
    const std::vector<uint8_t>& bytes = input->second.bytes;
    CHECK(std::memcmp(reinterpret_cast<const void*>(a.pointer), bytes.data(), bytes.size()) == 0);
    CHECK(std::memcmp(reinterpret_cast<const void*>(b.pointer), bytes.data(), bytes.size()) == 0);
  }
  REQUIRE(must(problem.bind(form)).launch(nullptr));
}

TEST_CASE("made floats repeat where that is asked for") {
  Case c(small_spec);
  c.data.counts = {{600, 1000}};
  const interpreter::Buffers all = must(make_inputs(c.compiled->planned.graph, c.data));
  c.data.repeat_after = 1 << 14;
  const interpreter::Buffers some = must(make_inputs(c.compiled->planned.graph, c.data));
  const std::vector<uint8_t>&x = all.at("x").bytes, &repeated = some.at("x").bytes;
  constexpr size_t period = 2 << 14;
  REQUIRE(repeated.size() == x.size());
  CHECK(std::equal(x.begin(), x.begin() + period, repeated.begin()));
  CHECK(!std::equal(x.begin() + period, x.end(), repeated.begin() + period));
  for (size_t i = period; i < repeated.size(); ++i)
    if (repeated[i] != repeated[i - period]) FAIL("byte " << i << " does not repeat");
  CHECK(all.at("p").bytes == some.at("p").bytes);  // it has fewer
}

TEST_CASE("a recorded launch is made again with the same calls") {
  for (const char* spec : {small_spec, summing_spec}) {
    Case c(spec);
    DeviceProblem problem = c.problem();
    const LaunchSequence form(c.kernel);
    const runtime::Arguments arguments = must(problem.arguments(form));
    const runtime::BoundCall call = must(runtime::bind_call(c.kernel.module, arguments));

    const auto noting = must(runtime::Device::open(RecordedLaunch::recording(*c.driver.table()), 0));
    const LoadedKernel noted = must(c.engine->load(c.compiled, noting));
    const runtime::BoundCall noted_call = must(runtime::bind_call(noted.module, arguments));
    c.driver.forget();
    const RecordedLaunch recorded =
        must(RecordedLaunch::record(*noted.module, [&] { return noted_call.launch(nullptr); }));
    CHECK(c.driver.launches.empty());  // it only takes notes

    REQUIRE(call.launch(nullptr));
    const std::vector<FakeLaunch> launched = c.driver.launches;
    const int memsets = c.driver.count("memset_d8_async");
    c.driver.forget();
    CHECK(recorded.calls() == launched.size() + static_cast<size_t>(memsets));
    REQUIRE(recorded.replay(*c.driver.table(), nullptr) == cuda::Code::success);
    CHECK(c.driver.count("memset_d8_async") == memsets);
    REQUIRE(c.driver.launches.size() == launched.size());
    for (size_t i = 0; i < launched.size(); ++i) {
      CHECK(c.driver.launches[i].entry == launched[i].entry);
      CHECK(c.driver.launches[i].grid == launched[i].grid);
      CHECK(c.driver.launches[i].block == launched[i].block);
      CHECK(c.driver.launches[i].shared_bytes == launched[i].shared_bytes);
      // Maps are numbered as they are made, so the first ones are of another call; what is behind them is equal.
      CHECK(c.driver.launches[i].parameters.size() == launched[i].parameters.size());
    }
  }
}

TEST_CASE("the host's cost is measured in batches, and the stream is drained between them") {
  Case c(summing_spec);
  DeviceProblem problem = c.problem();
  c.driver.forget();
  const HostCost cost = must(measure_host_cost(*c.engine, c.kernel, problem, {20, 5}));
  for (const Distribution* one : {&cost.bare, &cost.launch, &cost.rebind_and_launch, &cost.bind_and_launch}) {
    CHECK(one->count == 4);
    CHECK(one->median > 0);
  }
  // Four ways, 20 launches of each and a batch in front.
  const size_t launches = 4 * 25;
  CHECK(c.driver.launches.size() + static_cast<size_t>(c.driver.count("memset_d8_async")) ==
        launches * cost.driver_calls);
  CHECK(c.driver.count("stream_synchronize") >= 4 * 5);
}

}  // namespace
}  // namespace epifuse::jit
