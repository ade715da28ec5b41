// A captured graph follows the group sizes in its buffers: nothing but the copy of counts, the replay and a wait.
#include <fmt/ranges.h>

#include "compiler/interpreter/compare.h"
#include "jit/device_call.h"
#include "tests/gpu/support/kernels.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("a captured graph is right for other counts at each replay") {
  constexpr int64_t capacity = 2000;
  constexpr uint8_t poison = 0xAA;
  const std::vector<std::vector<int64_t>> rounds = {
      {500, 0, 700, 3}, {0, 0, 0, 0},     {0, 0, 0, 1333}, {600, 300, 999, 101} /* the capacity */,
      {1, 1, 1, 1},     {500, 0, 700, 3},
  };
  const auto kernel = compile_spec(file_text("specs/moe_fc1_swiglu.epi"), {{"E", 4}, {"K", 256}, {"I", 256}});
  const ir::Graph& graph = kernel->planned.graph;
  jit::InputOptions options;
  options.counts = rounds[3];
  interpreter::Buffers inputs = must(jit::make_inputs(graph, options));
  REQUIRE(inputs.at("x").extents[0] == capacity);
  interpreter::Buffers outputs = must(interpreter::make_outputs(must(interpreter::Problem::bind(graph, inputs, {}))));
  auto call = must(jit::DeviceCall::make(must(engine().load(kernel, gpu().device)), inputs, outputs, {}));
  const auto captured = must(
      runtime::CapturedGraph::capture(gpu().device, call.stream(), [&] { return call.bound().launch(call.stream()); }));
  const auto gemm = interpreter::cpu_gemm();
  for (const std::vector<int64_t>& counts : rounds) {
    must(call.fill_outputs(poison, {}));
    interpreter::HostTensor& ends = inputs.at("M.ends");
    int64_t end = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      interpreter::store_one(ends, static_cast<int64_t>(e), static_cast<double>(end += counts[e]));
    }
    const runtime::CurrentContext current(*gpu().device);  // else each call makes it current for itself
    CountingDriver::reset();
    must(call.memory("M.ends").upload(std::as_bytes(std::span(ends.bytes)), call.stream()));
    must(captured.replay(call.stream()));
    must(call.bound().synchronize(call.stream()));
    auto driver_calls = CountingDriver::counts();
    driver_calls.erase("ctx_get_current");  // a look at this thread, no work
    INFO(fmt::format("{}", fmt::join(driver_calls, ", ")));
    CHECK(driver_calls ==
          std::map<std::string, int>{{"memcpy_htod_async", 1}, {"graph_launch", 1}, {"stream_synchronize", 2}});

    must(call.download(outputs));
    const auto reference = must(interpreter::Reference::make(graph, inputs, {}, *gemm));
    for (const ir::Output& output : graph.outputs) {
      const auto verdict = must(interpreter::judge(reference, output, outputs, {nullptr, poison}));
      INFO(verdict.print());
      CHECK(verdict.ok);
    }
    CHECK(must(call.misplaced_writes(inputs)).empty());
  }
}
