// What the host pays for a launch and for a bind beyond the driver: nanoseconds per call on a table of driver entries
// that do nothing. A tool for whoever works on runtime/, not a test: run it before and after a change, on a quiet
// machine. `epifuse bench --host` measures the same on a GPU, over the real driver.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/bind.h"
#include "tests/support/idle_driver.h"
#include "tests/support/sample_recipe.h"

using namespace epifuse;
using namespace epifuse::runtime;

namespace {

// The least mean of twenty batches: what disturbs a batch only makes it longer.
template <class F>
double nanoseconds(F work) {
  constexpr int batches = 20, calls = 20000;
  double least = 1e18;
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) work(i);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count() / calls);
  }
  return least;
}

Arguments arguments() {
  Arguments a;
  a.tensors = {{"x", 0x10000, {300, 64}, {}, Storage::bf16},
               {"w", 0x20000, {4, 96, 64}, {}, Storage::bf16},
               {"M.ends", 0x80000, {4}, {}, {}},
               {"y", 0x90000, {300, 96}, {}, Storage::e4m3},
               {"y.scale", 0xa0000, {300, 3}, {}, Storage::e8m0}};
  a.dims = {{"K", 64}, {"N", 96}, {"E", 4}};
  a.params = {{"limit", 7.0}};
  a.workspace = {0xb0000, 4 * 256 + 320};
  return a;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

int run() {
  const auto device = Device::open(test::idle_driver(), 0);
  if (!device) return fail(device.error());
  KernelImage image;
  image.recipe = test::sample_recipe();
  const auto module = Module::load(*device, image);
  if (!module) return fail(module.error());
  const Arguments given = arguments();
  auto call = bind_call(*module, given);
  if (!call) return fail(call.error());
  int failures = 0;
  std::printf("a memset and two launches, one with a field of the multiprocessor count; ns per call:\n");
  std::printf("  launch            %8.1f\n", nanoseconds([&](int) { failures += !call->launch(nullptr); }));
  std::printf("  launch, margin 8  %8.1f\n", nanoseconds([&](int) { failures += !call->launch(nullptr, 8); }));
  std::printf("  bind              %8.1f\n", nanoseconds([&](int) { failures += !bind_call(*module, given); }));
  cuda::DevicePointer addresses[] = {0x10000, 0x20000, 0x80000, 0x90000, 0xa0000};
  std::printf("  rebind, launch    %8.1f   (every address is new)\n", nanoseconds([&](int i) {
                for (cuda::DevicePointer& address : addresses) address ^= 0x1000000U;
                failures += !call->rebind(addresses, 0xb0000 + (i % 2 == 0 ? 0x1000000 : 0));
                failures += !call->launch(nullptr);
              }));
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main() { return run(); }
