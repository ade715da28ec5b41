// A GPU on which everything succeeds at once, and of which nothing is noted: what is left is what the host does. The
// entries allocate nothing and take no lock. It knows the kernels of tests/support/sample_recipe.h.
#pragma once

#include <cstring>
#include <memory>

#include "runtime/driver_api.h"

namespace epifuse::test {

inline runtime::Driver idle_driver() {
  static const auto primary = reinterpret_cast<cuda::Context>(0x100);
  auto table = std::make_shared<runtime::DriverApi>();
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
  table->tensor_map_replace_address = [](cuda::TensorMap*, void*) { return cuda::Code::success; };
  return table;
}

}  // namespace epifuse::test
