// Launching a bound call: which driver calls happen, with what, and what an error says.
#include <thread>

#include "runtime/stream.h"
#include "tests/runtime/sample_call.h"
#include "tests/support/counting_driver.h"

using namespace epifuse;
using namespace epifuse::runtime;
using test::field;
using test::sample_arguments;
using test::tensor;

namespace {

const auto stream = reinterpret_cast<cuda::Stream>(0x77);

Arguments with_rows(int64_t rows) {
  Arguments a = sample_arguments();
  for (const char* name : {"x", "y", "y.scale"}) tensor(a, name).extents[0] = rows;
  return a;
}

}  // namespace

TEST_CASE("a launch is one driver call per step, in order, and one look at the context") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.forget();
  REQUIRE(call->launch(stream));
  CHECK(machine.driver.calls ==
        std::vector<std::string>{"ctx_get_current", "memset_d8_async", "launch_kernel_ex", "launch_kernel_ex"});
  CHECK(workspace.bytes[255] == 0xff);
  CHECK(workspace.bytes[256] == 0);
  CHECK(workspace.bytes[319] == 0);
  CHECK(workspace.bytes[320] == 0xff);
  const auto& gemm = machine.driver.launches[0];
  CHECK(gemm.grid == 7);  // (ceil(300/128) + 4) * 1
  CHECK(gemm.block == 384);
  CHECK(gemm.shared_bytes == 200000);
  CHECK(gemm.stream == stream);
  CHECK_FALSE(gemm.by_kernel_handle);
  CHECK(machine.driver.launches[1].grid == 3);
}

TEST_CASE("the margin lowers the grid and the fields that depend on it, for that launch only") {
  test::SampleMachine machine;
  Arguments a = with_rows(100000);
  tensor(a, "y").pointer = 0x10000000, tensor(a, "y.scale").pointer = 0x20000000, tensor(a, "x").pointer = 0x30000000;
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  REQUIRE(call->launch(stream));
  REQUIRE(call->launch(stream, 16));
  REQUIRE(call->launch(stream));
  REQUIRE(call->launch(stream, 131));
  const auto& l = machine.driver.launches;
  REQUIRE(l.size() == 8);
  CHECK(l[0].grid == 132);
  CHECK(l[2].grid == 116);
  CHECK(field<int32_t>(l[2], 292) == 116);
  CHECK(field<float>(l[2], 300) == 7.0F);
  CHECK(field<uint64_t>(l[2], 128) == 2);
  CHECK(l[4].grid == 132);
  CHECK(field<int32_t>(l[4], 292) == 132);
  CHECK(l[6].grid == 1);
  CHECK(l[1].grid == l[3].grid);

  CHECK(call->launch(stream, 132).error().message ==
        "kernel 'grouped': an sm_margin of 132 on a GPU of 132 multiprocessors");
  CHECK(call->launch(stream, -1).error().kind == ErrorKind::user);
  CHECK(l.size() == 8);
}

TEST_CASE("a launch whose entry waits by itself overlaps the launch before it") {
  test::FakeDriver driver;
  driver.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
  driver.current = test::FakeDriver::primary_context(0);
  auto image = test::sample_image();
  // What the launches of a call were allowed: their entries wait by themselves, or not.
  const auto overlaps = [&](const std::vector<bool>& waits, bool clears, const LaunchOptions& options) {
    image.recipe = test::sample_recipe();
    for (size_t i = 0; i < waits.size(); ++i) image.recipe.steps[i + 1].waits = waits[i];
    if (!clears) image.recipe.steps.erase(image.recipe.steps.begin());
    Arguments a = sample_arguments();
    test::HostWorkspace workspace(a);
    const auto call = bind_call(*Module::load(*Device::open(driver.table(), 0), image), a);
    REQUIRE(call);
    driver.forget();
    REQUIRE(call->launch(stream, options));
    std::vector<bool> found;
    for (const test::FakeLaunch& launch : driver.launches) found.push_back(launch.overlaps);
    return found;
  };
  using Launches = std::vector<bool>;
  CHECK(overlaps({true, true}, false, {}) == Launches{false, true});
  CHECK(overlaps({true, true}, false, {4, true}) == Launches{true, true});
  CHECK(overlaps({false, true}, false, {0, true}) == Launches{false, true});
  CHECK(overlaps({true, false}, false, {0, true}) == Launches{true, false});
  CHECK(overlaps({false, false}, false, {0, true}) == Launches{false, false});
  // A memset lets nothing start early.
  CHECK(overlaps({true, true}, true, {0, true}) == Launches{false, true});
  // Neither does a driver that cannot capture it, nor a GPU that does not know it.
  driver.version = 12020;
  CHECK(overlaps({true, true}, false, {0, true}) == Launches{false, false});
  driver.version = 12030;
  CHECK(overlaps({true, true}, false, {0, true}) == Launches{true, true});
  driver.capability_major = 8;
  CHECK(overlaps({true, true}, false, {0, true}) == Launches{false, false});
}

TEST_CASE("a grid may depend on the multiprocessors in any way") {
  test::SampleMachine machine;
  const IntExpr sms = IntExpr::symbol("sm_count"), m = IntExpr::symbol("M");
  struct Case {
    IntExpr grid;
    int64_t (*wanted)(int64_t sms);
  };
  const Case cases[] = {
      {min(sms * 2, m), [](int64_t n) { return std::min<int64_t>(2 * n, 300); }},
      {min(m, sms), [](int64_t n) { return std::min<int64_t>(n, 300); }},
      {sms * 3, [](int64_t n) { return 3 * n; }},
      {ceil_div(m, sms), [](int64_t n) { return (300 + n - 1) / n; }},
      {min(sms * sms, m), [](int64_t n) { return std::min<int64_t>(n * n, 300); }},
      {max(m - sms, 1), [](int64_t n) { return 300 - n; }},
      {min(min(sms * 2, m), 20), [](int64_t n) { return std::min<int64_t>(2 * n, 20); }},
      {min(sms, sms * 2), [](int64_t n) { return n; }},
      {m, [](int64_t) { return int64_t{300}; }},
  };
  for (const Case& c : cases) {
    INFO(c.grid.text());
    KernelImage image = test::sample_image();
    image.recipe.steps[1].grid = c.grid;
    image.recipe.steps[1].fields[5].value = c.grid;  // `rows`
    const auto module = *Module::load(machine.device, image);
    Arguments a = sample_arguments();
    test::HostWorkspace workspace(a);
    const auto call = bind_call(module, a);
    REQUIRE(call);
    for (const int margin : {0, 1, 16, 100, 131}) {
      machine.driver.forget();
      REQUIRE(call->launch(stream, margin));
      const auto& gemm = machine.driver.launches[0];
      CHECK(gemm.grid == c.wanted(132 - margin));
      CHECK(field<int64_t>(gemm, 280) == c.wanted(132 - margin));
    }
  }
}

TEST_CASE("what has no value for the multiprocessors that a margin leaves is refused before anything is enqueued") {
  test::SampleMachine machine;
  KernelImage image = test::sample_image();
  image.recipe.steps[2].grid = exact_div(IntExpr::symbol("M") * 0 + 264, IntExpr::symbol("sm_count"));
  const auto module = *Module::load(machine.device, image);
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(module, a);
  REQUIRE(call);
  REQUIRE(call->launch(stream));
  machine.driver.forget();
  CHECK(call->launch(stream, 1).error().kind == ErrorKind::user);
  CHECK(machine.driver.calls.empty());
  CHECK(call->launch(stream, 66));
}

TEST_CASE("the same image takes the device's own multiprocessor count") {
  test::FakeDriver driver;
  driver.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
  driver.sm_count = 78;
  driver.current = test::FakeDriver::primary_context(0);
  const auto module = *Module::load(*Device::open(driver.table(), 0), test::sample_image());
  Arguments a = with_rows(100000);
  tensor(a, "y").pointer = 0x10000000, tensor(a, "y.scale").pointer = 0x20000000, tensor(a, "x").pointer = 0x30000000;
  test::HostWorkspace workspace(a);
  REQUIRE(bind_call(module, a)->launch(stream));
  CHECK(driver.launches[0].grid == 78);
}

TEST_CASE("without rows nothing is enqueued, and that is a success") {
  test::SampleMachine machine;
  Arguments a = with_rows(0);
  for (const char* name : {"x", "y", "y.scale"}) tensor(a, name).pointer = 0;
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.forget();
  CHECK(call->launch(stream));
  CHECK(machine.driver.calls.empty());
}

TEST_CASE("a step without blocks is passed over, and the others run") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  image.recipe.steps[1].grid = image.recipe.steps[1].grid * 0;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(*Module::load(machine.device, image), a);
  REQUIRE(call);
  REQUIRE(call->launch(stream));
  REQUIRE(machine.driver.launches.size() == 1);
  CHECK(machine.driver.launches[0].entry == "finish_entry");
  CHECK(workspace.bytes[256] == 0);
}

TEST_CASE("several steps are captured as they are launched: nothing is allocated, waited for or copied") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.forget();
  const auto graph = CapturedGraph::capture(machine.device, stream, [&] { return call->launch(stream, 4); });
  REQUIRE(graph);
  const auto& calls = machine.driver.calls;
  const auto begin = std::find(calls.begin(), calls.end(), "stream_begin_capture");
  const auto end = std::find(begin, calls.end(), "stream_end_capture");
  REQUIRE(end != calls.end());
  CHECK(std::vector<std::string>(begin + 1, end) ==
        std::vector<std::string>{"ctx_get_current", "memset_d8_async", "launch_kernel_ex", "launch_kernel_ex"});
}

TEST_CASE("a thread without a context gets the primary one for the call, and only for the call") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.current = nullptr;
  machine.driver.forget();
  REQUIRE(call->launch(stream));
  CHECK(machine.driver.count("ctx_push_current") == 1);
  CHECK(machine.driver.count("ctx_pop_current") == 1);
  CHECK(machine.driver.current == nullptr);

  // Another device's context is replaced for the call as well.
  machine.driver.current = test::FakeDriver::primary_context(1);
  machine.driver.forget();
  REQUIRE(call->launch(stream));
  CHECK(machine.driver.count("ctx_push_current") == 1);
  CHECK(machine.driver.current == test::FakeDriver::primary_context(1));

  // A context that somebody made on the same device stays, and the kernel is launched by the handle that is valid
  // there.
  machine.driver.current = test::FakeDriver::primary_context(100);
  machine.driver.forget();
  REQUIRE(call->launch(stream));
  CHECK(machine.driver.count("ctx_push_current") == 0);
  CHECK(machine.driver.launches[0].by_kernel_handle);
}

TEST_CASE("errors name the kernel, and a failed launch stops the steps") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.forget();
  machine.driver.fail["launch_kernel_ex"] = cuda::Code::illegal_address;
  const Status s = call->launch(stream);
  REQUIRE_FALSE(s);
  CHECK(s.error().kind == ErrorKind::environment);
  CHECK(s.error().message ==
        "launching kernel 'grouped' (entry 'gemm_entry') on GPU 0 (Fake GPU): a kernel accessed memory that is not "
        "mapped (illegal address) (700, CUDA_ERROR_ILLEGAL_ADDRESS)");
  CHECK(machine.driver.count("launch_kernel_ex") == 1);

  machine.driver.fail = {{"stream_synchronize", cuda::Code::illegal_address}};
  CHECK(call->synchronize(stream).error().message.find(
            "kernel 'grouped' on GPU 0 (Fake GPU): a kernel accessed memory") == 0);
}

TEST_CASE("group sizes on the device are checked against the capacity") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  alignas(16) int32_t ends[4] = {0, 128, 128, 300};
  tensor(a, "M.ends").pointer = reinterpret_cast<uint64_t>(ends);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  CHECK(call->check_group_sizes(stream));
  ends[3] = 301;
  CHECK(call->check_group_sizes(stream).error().message ==
        "M.ends: group 3 has 173 rows from row 128 on, past the capacity of 300 rows");
}

TEST_CASE("the counting table counts every call and changes none") {
  test::FakeDriver fake;
  fake.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
  const Driver counted = test::CountingDriver::wrap(fake.table());
  const auto device = *Device::open(counted, 0);
  const auto module = *Module::load(device, test::sample_image());
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(module, a);
  REQUIRE(call);
  fake.current = test::FakeDriver::primary_context(0);
  test::CountingDriver::reset();
  REQUIRE(call->launch(stream));
  CHECK(test::CountingDriver::counts() ==
        std::map<std::string, int>{{"ctx_get_current", 1}, {"memset_d8_async", 1}, {"launch_kernel_ex", 2}});
  CHECK(fake.launches.size() == 2);
}
