// Cases of alignment and of launches that a graph cannot hold, on the compiler and on a driver without a GPU.
#include <fmt/format.h>

#include "compiler/compiler.h"
#include "tests/lowering/lowering_support.h"
#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("B91: the workspace is aligned as it must be, or refused by name") {
  SampleMachine machine;
  for (const uint64_t off : {16, 32, 64, 128}) {
    CHECK(machine.complaint([&](runtime::Arguments& a) { a.workspace.pointer += off; }) ==
          fmt::format("the workspace is at {:#x}, wanted an address that is a multiple of 256",
                      sample_arguments().workspace.pointer + off));
  }
  CHECK(machine.complaint([](runtime::Arguments& a) { a.workspace.pointer += 256; }).empty());
}

TEST_CASE("B92: sizes that TMA cannot step are refused with the dimension, its value and the multiple") {
  const auto refusal = [](const std::string& dims, const std::string& type) {
    std::string text = ragged_spec("out y : bf16[M, N] = gemm(x, w)", dims);
    for (size_t at = 0; (at = text.find("bf16[", at)) != std::string::npos; at += type.size())
      text.replace(at, 4, type);
    return lower_text(text).diagnostics.print();
  };
  const auto contains = [](const std::string& text, std::initializer_list<const char*> words) {
    INFO(text);
    for (const char* word : words) CHECK(text.find(word) != std::string::npos);
  };
  contains(refusal("E = 2, K = 1028, N = 64", "bf16"), {"K = 1028", "multiple of 8", "16 bytes"});
  contains(refusal("E = 2, K = 64, N = 36", "bf16"), {"N = 36", "multiple of 8"});
  contains(refusal("E = 2, K = 1000, N = 64", "e4m3"), {"a gemm operand of type e4m3", "in x : e4m3[M, K]"});
  CHECK(refusal("E = 2, K = 1032, N = 40", "bf16").empty());

  // A caller's own pitch is checked when the call is bound: 68 elements of bf16 are 136 bytes.
  SampleMachine machine;
  const std::string pitch = machine.complaint([](runtime::Arguments& a) { tensor(a, "x").strides = {68, 1}; });
  contains(pitch, {"'x'", "136", "16"});
}

TEST_CASE("B95: what TMA writes in shared memory lies on whole patterns of the swizzle, in every plan") {
  constexpr int pattern = 1024;
  size_t plans = 0;
  for (const std::string& path : spec_paths()) {
    const LoweredText result = lower_spec(path);
    for (const lowering::KernelPlan& plan : result.lowered.plans) {
      INFO(path << " " << lowering::schedule_name(plan.schedule));
      ++plans;
      for (const lowering::SharedBuffer& buffer : plan.shared) {
        const bool is_ring = buffer.name.find("stages") != std::string::npos;
        if (!is_ring && buffer.name.find("tile inputs of") == std::string::npos) continue;
        const int pieces = is_ring ? plan.schedule.stages : plan.schedule.tile_input_stages;
        INFO(buffer.name << " at " << buffer.offset << ", " << pieces << " pieces of " << buffer.bytes << " bytes");
        CHECK(buffer.offset % pattern == 0);
        CHECK(buffer.bytes % (pieces * pattern) == 0);
      }
    }
  }
  CHECK(plans > spec_paths().size());
}

namespace {

unsigned attributes_seen = 0;
bool attributes_given = false;

}  // namespace

TEST_CASE(
    "B102 B103: a launch is a plain one: not cooperative, nor ahead of the kernel before it unless it waits by "
    "itself") {
  FakeDriver fake;
  fake.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
  fake.current = FakeDriver::primary_context(0);
  auto table = std::make_shared<runtime::DriverApi>(*fake.table());
  static decltype(table->launch_kernel_ex) launch;
  launch = table->launch_kernel_ex;
  table->launch_kernel_ex = [](const cuda::LaunchConfig* config, cuda::Function function, void** arguments,
                               void** extra) {
    attributes_seen += config->attribute_count;
    attributes_given |= config->attributes != nullptr || extra != nullptr;
    return launch(config, function, arguments, extra);
  };
  const auto module = runtime::Module::load(*runtime::Device::open(table, 0), sample_image());
  REQUIRE(module);
  runtime::Arguments a = sample_arguments();
  HostWorkspace workspace(a);
  const auto call = runtime::bind_call(*module, a);
  REQUIRE(call);
  REQUIRE(call->launch(nullptr));
  CHECK(fake.launches.size() == 2);
  CHECK(attributes_seen == 0);
  CHECK_FALSE(attributes_given);
}
