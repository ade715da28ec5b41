// The types of the CUDA driver API that Epifuse calls, declared by us, so that building needs no CUDA header and a
// binary needs no CUDA library. They are the ABI of the entries in runtime/driver_api.def; tests/runtime compares every
// size, offset and value with <cuda.h> where that exists.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epifuse::cuda {

// What an entry returns. Only the codes that Epifuse tells apart have names.
enum class Code : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  stub_library = 34,
  no_device = 100,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
};

using DeviceHandle = int;  // CUdevice
using DevicePointer = uint64_t;
using AllocationHandle = uint64_t;
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;  // null: the legacy default stream
using Event = struct EventOpaque*;
using Library = struct LibraryOpaque*;
using Kernel = struct KernelOpaque*;
using Function = struct FunctionOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_cache_size = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_block_optin = 97,
};

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  static_shared_bytes = 1,
  max_dynamic_shared_bytes = 8,
};

enum class PointerAttribute : int {
  memory_type = 2,
  device_ordinal = 9,
};

enum class MemoryType : unsigned { none = 0, host = 1, device = 2, array = 3, unified = 4 };

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_default = 0;

enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

// The hardware and the driver ask for 64 bytes. (CUDA 13 declares 128, CUDA 12 declared 64.)
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

enum class TensorMapDataType : int { uint8 = 0, float16 = 6, float32 = 7, bfloat16 = 9 };
enum class TensorMapInterleave : int { none = 0 };
enum class TensorMapSwizzle : int { none = 0, b32 = 1, b64 = 2, b128 = 3 };
enum class TensorMapL2Promotion : int { none = 0, b64 = 1, b128 = 2, b256 = 3 };
enum class TensorMapFill : int { zero = 0 };

enum class LaunchAttributeId : int { programmatic_stream_serialization = 6 };

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char pad[64];
    int programmatic_stream_serialization;  // 1: may start while what is before it in the stream still runs
  } value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

// Virtual memory management, for allocations whose end is known to the byte.
enum class AllocationType : int { pinned = 1 };
enum class LocationType : int { device = 1 };
enum class AccessFlags : int { read_write = 3 };
enum class GranularityFlag : int { minimum = 0 };

struct MemoryLocation {
  LocationType type;
  int id;
};

struct AllocationProperties {
  AllocationType type;
  int handle_types;
  MemoryLocation location;
  void* win32_handle;
  unsigned char flags[8];
};

struct AccessDescription {
  MemoryLocation location;
  AccessFlags flags;
};

}  // namespace epifuse::cuda
