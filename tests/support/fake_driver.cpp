// The entries of the fake driver, by the groups of runtime/driver_api.def.
#include "tests/support/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace epifuse::test {
namespace {

using cuda::Code;

FakeDriver* fake = nullptr;

// Handles are small distinct addresses: the kind in the high digits, a number in the low ones.
template <class Handle>
Handle handle(uintptr_t kind, uintptr_t number) {
  return reinterpret_cast<Handle>(kind << 16 | number);
}
template <class Handle>
uintptr_t number_of(Handle h) {
  return reinterpret_cast<uintptr_t>(h) & 0xffff;
}

constexpr uintptr_t context_kind = 1, library_kind = 2, kernel_kind = 3, function_kind = 4, stream_kind = 5,
                    event_kind = 6, graph_kind = 7, exec_kind = 8;

// Records the call; the code that a test wants it to fail with, else success.
Code enter(const char* name) {
  fake->calls.push_back(name);
  const auto it = fake->fail.find(name);
  return it == fake->fail.end() ? Code::success : it->second;
}

#define ENTER(name) \
  if (const Code c = enter(name); c != Code::success) return c

std::string entry_name(uintptr_t number) { return std::next(fake->entries.begin(), static_cast<long>(number))->first; }

Code close_one() {
  --fake->open_handles;
  return Code::success;
}

Code get_attribute(int* value, cuda::DeviceAttribute attribute, cuda::DeviceHandle) {
  ENTER("device_get_attribute");
  switch (attribute) {
    case cuda::DeviceAttribute::multiprocessor_count: *value = fake->sm_count; break;
    case cuda::DeviceAttribute::l2_cache_size: *value = 50 << 20; break;
    case cuda::DeviceAttribute::compute_capability_major: *value = fake->capability_major; break;
    case cuda::DeviceAttribute::compute_capability_minor: *value = fake->capability_minor; break;
    case cuda::DeviceAttribute::max_shared_memory_per_block_optin: *value = fake->shared_bytes_per_block; break;
  }
  return Code::success;
}

Code get_kernel(cuda::Kernel* kernel, cuda::Library, const char* name) {
  ENTER("library_get_kernel");
  const auto it = fake->entries.find(name);
  if (it == fake->entries.end()) return Code::not_found;
  *kernel = handle<cuda::Kernel>(kernel_kind, static_cast<uintptr_t>(std::distance(fake->entries.begin(), it)));
  return Code::success;
}

Code get_param_info(cuda::Kernel kernel, size_t index, size_t* offset, size_t* size) {
  ENTER("kernel_get_param_info");
  if (index != 0) return Code::invalid_value;
  *offset = 0;
  *size = fake->entries.at(entry_name(number_of(kernel)));
  return Code::success;
}

Code launch(const cuda::LaunchConfig* config, cuda::Function function, void** arguments, void**) {
  ENTER("launch_kernel_ex");
  FakeLaunch launch;
  launch.by_kernel_handle = reinterpret_cast<uintptr_t>(function) >> 16 == kernel_kind;
  launch.entry = entry_name(number_of(function));
  launch.grid = config->grid_x;
  launch.block = config->block_x;
  launch.shared_bytes = config->shared_bytes;
  launch.stream = config->stream;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const auto& attribute = static_cast<const cuda::LaunchAttribute*>(config->attributes)[i];
    if (attribute.id != cuda::LaunchAttributeId::programmatic_stream_serialization) return Code::invalid_value;
    launch.overlaps = attribute.value.programmatic_stream_serialization != 0;
  }
  const auto* bytes = static_cast<const std::byte*>(arguments[0]);
  launch.parameters.assign(bytes, bytes + fake->entries.at(launch.entry));
  fake->launches.push_back(std::move(launch));
  return Code::success;
}

// Writes the number of the map into the descriptor, so that a test finds the arguments of a map in a parameter struct.
Code encode(cuda::TensorMap* out, cuda::TensorMapDataType type, uint32_t rank, void* base, const uint64_t* extents,
            const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, cuda::TensorMapInterleave,
            cuda::TensorMapSwizzle swizzle, cuda::TensorMapL2Promotion, cuda::TensorMapFill) {
  ENTER("tensor_map_encode_tiled");
  if (reinterpret_cast<uintptr_t>(out) % 64 != 0) return Code::invalid_value;
  std::memset(out, 0, sizeof *out);
  out->opaque[0] = fake->maps.size() + 1;
  fake->maps.push_back({type,
                        reinterpret_cast<uint64_t>(base),
                        {extents, extents + rank},
                        {strides, strides + rank - 1},
                        {box, box + rank},
                        {element_strides, element_strides + rank},
                        swizzle});
  return Code::success;
}

// Moves the base that the map was recorded with.
Code replace_address(cuda::TensorMap* map, void* base) {
  ENTER("tensor_map_replace_address");
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(base) % 16 != 0)
    return Code::invalid_value;
  fake->maps.at(map->opaque[0] - 1).base = reinterpret_cast<uint64_t>(base);
  return Code::success;
}

Code pointer_attributes(unsigned count, cuda::PointerAttribute* attributes, void** values,
                        cuda::DevicePointer pointer) {
  ENTER("pointer_get_attributes");
  const auto other = fake->other_device.find(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == cuda::PointerAttribute::memory_type) {
      *static_cast<unsigned*>(values[i]) = other != fake->other_device.end() && other->second < 0 ? 0 : 2;
    } else {
      *static_cast<int*>(values[i]) = other == fake->other_device.end() ? 0 : other->second;
    }
  }
  return Code::success;
}

void fill_start(runtime::DriverApi& t) {
  t.get_error_name = [](Code code, const char** name) {
    *name = code == Code::illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
    return Code::success;
  };
  t.get_error_string = [](Code, const char** text) {
    *text = "the fake driver was told to fail";
    return Code::success;
  };
  t.init = [](unsigned) { return enter("init"); };
  t.driver_get_version = [](int* version) {
    ENTER("driver_get_version");
    *version = fake->version;
    return Code::success;
  };
  t.device_get_count = [](int* count) {
    ENTER("device_get_count");
    *count = fake->device_count;
    return Code::success;
  };
  t.device_get = [](cuda::DeviceHandle* device, int ordinal) {
    ENTER("device_get");
    *device = ordinal;
    return Code::success;
  };
  t.device_get_name = [](char* name, int length, cuda::DeviceHandle) {
    ENTER("device_get_name");
    std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
    return Code::success;
  };
  t.device_get_pci_bus_id = [](char* address, int length, cuda::DeviceHandle) {
    ENTER("device_get_pci_bus_id");
    std::strncpy(address, "0000:1B:00.0", static_cast<size_t>(length));
    return Code::success;
  };
  t.device_total_mem = [](size_t* bytes, cuda::DeviceHandle) {
    ENTER("device_total_mem");
    *bytes = size_t{1} << 34;
    return Code::success;
  };
  t.device_get_attribute = get_attribute;
}

void fill_contexts(runtime::DriverApi& t) {
  t.device_primary_ctx_retain = [](cuda::Context* context, cuda::DeviceHandle device) {
    ENTER("device_primary_ctx_retain");
    *context = FakeDriver::primary_context(device);
    ++fake->open_handles;
    return Code::success;
  };
  t.device_primary_ctx_release = [](cuda::DeviceHandle) {
    enter("device_primary_ctx_release");
    return close_one();
  };
  t.ctx_get_current = [](cuda::Context* context) {
    ENTER("ctx_get_current");
    *context = fake->current;
    return Code::success;
  };
  // Contexts 0 to 99 are the primary ones; 100 + d stands for one that somebody else made on device d.
  t.ctx_get_device = [](cuda::DeviceHandle* device) {
    ENTER("ctx_get_device");
    *device = static_cast<int>(number_of(fake->current) % 100);
    return Code::success;
  };
  static std::vector<cuda::Context> stack;
  stack.clear();
  t.ctx_push_current = [](cuda::Context context) {
    ENTER("ctx_push_current");
    stack.push_back(fake->current);
    fake->current = context;
    return Code::success;
  };
  t.ctx_pop_current = [](cuda::Context* context) {
    ENTER("ctx_pop_current");
    *context = fake->current;
    fake->current = stack.back();
    stack.pop_back();
    return Code::success;
  };
}

void fill_kernels(runtime::DriverApi& t) {
  t.library_load_data = [](cuda::Library* library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
    ENTER("library_load_data");
    *library = handle<cuda::Library>(library_kind, 1);
    ++fake->open_handles;
    return Code::success;
  };
  t.library_unload = [](cuda::Library) {
    enter("library_unload");
    return close_one();
  };
  t.library_get_kernel = get_kernel;
  t.kernel_get_function = [](cuda::Function* function, cuda::Kernel kernel) {
    ENTER("kernel_get_function");
    *function = handle<cuda::Function>(function_kind, number_of(kernel));
    return Code::success;
  };
  t.kernel_get_attribute = [](int* value, cuda::FunctionAttribute attribute, cuda::Kernel, cuda::DeviceHandle) {
    ENTER("kernel_get_attribute");
    *value = attribute == cuda::FunctionAttribute::max_threads_per_block ? fake->max_threads_per_block : 0;
    return Code::success;
  };
  t.kernel_set_attribute = [](cuda::FunctionAttribute, int value, cuda::Kernel kernel, cuda::DeviceHandle) {
    ENTER("kernel_set_attribute");
    fake->shared_bytes_set[entry_name(number_of(kernel))] = value;
    return Code::success;
  };
  t.kernel_get_param_info = get_param_info;
  t.launch_kernel_ex = launch;
  t.tensor_map_encode_tiled = encode;
  t.tensor_map_replace_address = replace_address;
}

void fill_memory(runtime::DriverApi& t) {
  t.mem_alloc = [](cuda::DevicePointer* pointer, size_t bytes) {
    ENTER("mem_alloc");
    *pointer = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    ++fake->open_handles;
    return Code::success;
  };
  t.mem_free = [](cuda::DevicePointer pointer) {
    enter("mem_free");
    std::free(reinterpret_cast<void*>(pointer));
    return close_one();
  };
  t.mem_get_info = [](size_t* free_bytes, size_t* total_bytes) {
    ENTER("mem_get_info");
    *free_bytes = 1000;
    *total_bytes = 2000;
    return Code::success;
  };
  t.memcpy_htod_async = [](cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream) {
    ENTER("memcpy_htod_async");
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return Code::success;
  };
  t.memcpy_dtoh_async = [](void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream) {
    ENTER("memcpy_dtoh_async");
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return Code::success;
  };
  t.memcpy_dtod_async = [](cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream) {
    ENTER("memcpy_dtod_async");
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return Code::success;
  };
  t.memset_d8_async = [](cuda::DevicePointer to, unsigned char value, size_t bytes, cuda::Stream) {
    ENTER("memset_d8_async");
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return Code::success;
  };
  t.pointer_get_attributes = pointer_attributes;
}

void fill_streams(runtime::DriverApi& t) {
  t.stream_create = [](cuda::Stream* stream, unsigned) {
    ENTER("stream_create");
    *stream = handle<cuda::Stream>(stream_kind, 1);
    ++fake->open_handles;
    return Code::success;
  };
  t.stream_destroy = [](cuda::Stream) { return enter("stream_destroy"), close_one(); };
  t.stream_synchronize = [](cuda::Stream) { return enter("stream_synchronize"); };
  t.stream_begin_capture = [](cuda::Stream, cuda::CaptureMode) { return enter("stream_begin_capture"); };
  t.stream_end_capture = [](cuda::Stream, cuda::Graph* graph) {
    ENTER("stream_end_capture");
    *graph = handle<cuda::Graph>(graph_kind, 1);
    ++fake->open_handles;
    return Code::success;
  };
  t.event_create = [](cuda::Event* event, unsigned) {
    ENTER("event_create");
    *event = handle<cuda::Event>(event_kind, 1);
    ++fake->open_handles;
    return Code::success;
  };
  t.event_destroy = [](cuda::Event) { return enter("event_destroy"), close_one(); };
  t.event_record = [](cuda::Event, cuda::Stream) { return enter("event_record"); };
  t.event_synchronize = [](cuda::Event) { return enter("event_synchronize"); };
  t.event_elapsed_time = [](float* ms, cuda::Event, cuda::Event) {
    ENTER("event_elapsed_time");
    *ms = 1.5F;
    return Code::success;
  };
  t.graph_instantiate = [](cuda::GraphExec* exec, cuda::Graph, uint64_t) {
    ENTER("graph_instantiate");
    *exec = handle<cuda::GraphExec>(exec_kind, 1);
    ++fake->open_handles;
    return Code::success;
  };
  t.graph_launch = [](cuda::GraphExec, cuda::Stream) { return enter("graph_launch"); };
  t.graph_exec_destroy = [](cuda::GraphExec) { return enter("graph_exec_destroy"), close_one(); };
  t.graph_destroy = [](cuda::Graph) { return enter("graph_destroy"), close_one(); };
}

}  // namespace

FakeDriver::FakeDriver() {
  fake = this;
  auto table = std::make_shared<runtime::DriverApi>();
  fill_start(*table);
  fill_contexts(*table);
  fill_kernels(*table);
  fill_memory(*table);
  fill_streams(*table);
  table_ = std::move(table);
}

FakeDriver::~FakeDriver() { fake = nullptr; }

int FakeDriver::count(const std::string& name) const {
  return static_cast<int>(std::count(calls.begin(), calls.end(), name));
}

cuda::Context FakeDriver::primary_context(int device) {
  return handle<cuda::Context>(context_kind, static_cast<uintptr_t>(device));
}

}  // namespace epifuse::test
