// A GPU whose kernels are a function of the test: the fake driver with guarded memory (host pages, really unmapped
// behind a buffer) and a launch that calls back with the addresses of the outputs.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <sys/mman.h>

#include "base/kernel_image.h"
#include "compiler/interpreter/host_tensor.h"
#include "runtime/device.h"
#include "tests/support/catch.h"
#include "tests/support/fake_driver.h"

namespace epifuse::test {

class PretendGpu {
 public:
  // Bytes in "device memory", by the buffer's name; what lies in the workspace by the name of the field.
  using Outputs = std::map<std::string, uint8_t*>;

  PretendGpu() {
    state() = this;
    auto table = std::make_shared<runtime::DriverApi>(*driver_.table());
    table->mem_get_allocation_granularity = [](size_t* granule, const cuda::AllocationProperties*,
                                               cuda::GranularityFlag) {
      *granule = page;
      return cuda::Code::success;
    };
    table->mem_address_reserve = [](cuda::DevicePointer* pointer, size_t bytes, size_t, cuda::DevicePointer, uint64_t) {
      void* reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      *pointer = reinterpret_cast<cuda::DevicePointer>(reserved);
      return reserved == MAP_FAILED ? cuda::Code::out_of_memory : cuda::Code::success;
    };
    table->mem_create = [](cuda::AllocationHandle* handle, size_t, const cuda::AllocationProperties*, uint64_t) {
      *handle = 1;
      return cuda::Code::success;
    };
    table->mem_map = [](cuda::DevicePointer, size_t, size_t, cuda::AllocationHandle, uint64_t) {
      return cuda::Code::success;
    };
    table->mem_set_access = [](cuda::DevicePointer pointer, size_t bytes, const cuda::AccessDescription*, size_t) {
      const int failed = ::mprotect(reinterpret_cast<void*>(pointer), bytes, PROT_READ | PROT_WRITE);
      return failed ? cuda::Code::invalid_value : cuda::Code::success;
    };
    table->mem_unmap = [](cuda::DevicePointer, size_t) { return cuda::Code::success; };
    table->mem_release = [](cuda::AllocationHandle) { return cuda::Code::success; };
    table->mem_address_free = [](cuda::DevicePointer pointer, size_t bytes) {
      ::munmap(reinterpret_cast<void*>(pointer), bytes);
      return cuda::Code::success;
    };
    table->launch_kernel_ex = [](const cuda::LaunchConfig* config, cuda::Function function, void** arguments, void**) {
      PretendGpu& gpu = *state();
      const cuda::Code code = gpu.driver_.table()->launch_kernel_ex(config, function, arguments, nullptr);
      if (code != cuda::Code::success) return code;
      gpu.entry = gpu.driver_.launches.back().entry;
      gpu.kernel(gpu.launches++, gpu.outputs(static_cast<const std::byte*>(arguments[0])));
      return cuda::Code::success;
    };
    auto opened = runtime::Device::open(std::move(table), 0);
    REQUIRE(opened);
    device = *std::move(opened);
  }
  ~PretendGpu() { state() = nullptr; }

  // The kernel that will be loaded.
  void expect(const LaunchRecipe& recipe) {
    recipe_ = recipe;
    driver_.entries.clear();
    for (const RecipeStep& step : recipe.steps)
      if (step.kind == RecipeStep::Kind::launch) driver_.entries[step.entry] = step.parameter_bytes;
  }

 private:
  FakeDriver driver_;  // outlives the device

 public:
  runtime::DevicePtr device;
  std::function<void(int launch, const Outputs&)> kernel;  // counts from 0
  int launches = 0;
  std::string entry;  // that is being launched

 private:
  static constexpr size_t page = 4096;
  static PretendGpu*& state() {
    static PretendGpu* instance = nullptr;
    return instance;
  }

  Outputs outputs(const std::byte* parameters) const {
    Outputs found;
    for (const RecipeStep& step : recipe_.steps) {
      if (step.kind != RecipeStep::Kind::launch || step.entry != entry) continue;
      for (const ParameterField& field : step.fields) {
        if (field.kind != FieldKind::address || field.tensor.empty()) continue;
        uint8_t* address = nullptr;
        std::memcpy(&address, parameters + field.offset, sizeof address);
        found[field.tensor == workspace_name ? field.name : field.tensor] = address;
      }
    }
    return found;
  }

  LaunchRecipe recipe_;
};

}  // namespace epifuse::test
