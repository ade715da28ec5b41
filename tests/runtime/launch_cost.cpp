// What the host pays for a launch and for a bind beyond the driver: nanoseconds per call on a table of driver entries
// that do nothing. A tool for whoever works on runtime/, not a test: run it before and after a change, on a quiet
// machine. `epifuse bench --host` measures the same on a GPU, over the real driver.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/bind.h"
#include "tests/support/sample_recipe.h"

using namespace epifuse;
using namespace epifuse::runtime;

namespace {

const auto primary = reinterpret_cast<cuda::Context>(0x100);

// A GPU on which everything succeeds at once.
Driver idle_driver() {
  auto table = std::make_shared<DriverApi>();
  table->driver_get_version = [](int* version) { return *version = 13000, cuda::Code::success; };
  table->device_get_count = [](int* count) { return *count = 1, cuda::Code::success; };
  table->device_get = [](cuda::DeviceHandle* device, int ordinal) { return *device = ordinal, cuda::Code::success; };
  table->device_get_name = [](char* name, int, cuda::DeviceHandle) {
    return std::strcpy(name, "idle"), cuda::Code::success;
  };
  table->device_get_pci_bus_id = [](char* address, int, cuda::DeviceHandle) {
    return std::strcpy(address, "0000:00:00.0"), cuda::Code::success;
  };
  table->device_total_mem = [](size_t* bytes, cuda::DeviceHandle) {
    return *bytes = size_t{1} << 34, cuda::Code::success;
  };
  table->device_get_attribute = [](int* value, cuda::DeviceAttribute attribute, cuda::DeviceHandle) {
    *value = attribute == cuda::DeviceAttribute::multiprocessor_count       ? 132
             : attribute == cuda::DeviceAttribute::compute_capability_major ? 9
             : attribute == cuda::DeviceAttribute::compute_capability_minor ? 0
                                                                            : 232448;
    return cuda::Code::success;
  };
  table->device_primary_ctx_retain = [](cuda::Context* context, cuda::DeviceHandle) {
    return *context = primary, cuda::Code::success;
  };
  table->device_primary_ctx_release = [](cuda::DeviceHandle) { return cuda::Code::success; };
  table->ctx_get_current = [](cuda::Context* context) { return *context = primary, cuda::Code::success; };
  table->library_load_data = [](cuda::Library* library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
    return *library = reinterpret_cast<cuda::Library>(0x200), cuda::Code::success;
  };
  table->library_unload = [](cuda::Library) { return cuda::Code::success; };
  table->library_get_kernel = [](cuda::Kernel* kernel, cuda::Library, const char* name) {
    // The parameter bytes of the two entries of the sample recipe, as a handle.
    return *kernel = reinterpret_cast<cuda::Kernel>(uintptr_t{name[0] == 'g' ? 320U : 16U}), cuda::Code::success;
  };
  table->kernel_get_function = [](cuda::Function* function, cuda::Kernel kernel) {
    return *function = reinterpret_cast<cuda::Function>(kernel), cuda::Code::success;
  };
  table->kernel_get_param_info = [](cuda::Kernel kernel, size_t index, size_t* offset, size_t* size) {
    if (index != 0) return cuda::Code::invalid_value;
    *offset = 0, *size = reinterpret_cast<uintptr_t>(kernel);
    return cuda::Code::success;
  };
  table->kernel_get_attribute = [](int* value, cuda::FunctionAttribute attribute, cuda::Kernel, cuda::DeviceHandle) {
    *value = attribute == cuda::FunctionAttribute::max_threads_per_block ? 1024 : 0;
    return cuda::Code::success;
  };
  table->kernel_set_attribute = [](cuda::FunctionAttribute, int, cuda::Kernel, cuda::DeviceHandle) {
    return cuda::Code::success;
  };
  table->launch_kernel_ex = [](const cuda::LaunchConfig*, cuda::Function, void**, void**) {
    return cuda::Code::success;
  };
  table->memset_d8_async = [](cuda::DevicePointer, unsigned char, size_t, cuda::Stream) { return cuda::Code::success; };
  table->pointer_get_attributes = [](unsigned, cuda::PointerAttribute*, void** values, cuda::DevicePointer) {
    *static_cast<unsigned*>(values[0]) = static_cast<unsigned>(cuda::MemoryType::device);
    *static_cast<int*>(values[1]) = 0;
    return cuda::Code::success;
  };
  table->tensor_map_encode_tiled = [](cuda::TensorMap*, cuda::TensorMapDataType, uint32_t, void*, const uint64_t*,
                                      const uint64_t*, const uint32_t*, const uint32_t*, cuda::TensorMapInterleave,
                                      cuda::TensorMapSwizzle, cuda::TensorMapL2Promotion,
                                      cuda::TensorMapFill) { return cuda::Code::success; };
#ifndef BEFORE
  table->tensor_map_replace_address = [](cuda::TensorMap*, void*) { return cuda::Code::success; };
#endif
  return table;
}

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
  const auto device = Device::open(idle_driver(), 0);
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
#ifndef BEFORE
  cuda::DevicePointer addresses[] = {0x10000, 0x20000, 0x80000, 0x90000, 0xa0000};
  std::printf("  rebind, launch    %8.1f   (every address is new)\n", nanoseconds([&](int i) {
                for (cuda::DevicePointer& address : addresses) address ^= 0x1000000U;
                failures += !call->rebind(addresses, 0xb0000 + (i % 2 == 0 ? 0x1000000 : 0));
                failures += !call->launch(nullptr);
              }));
#endif
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main() { return run(); }
