// Our declarations of the driver's ABI against <cuda.h>, where one was found at configure time: sizes, offsets, values
// of enumerators, and, for every entry of the table, the number and size of its parameters.
#include "runtime/cuda_types.h"

#include <type_traits>

#include "runtime/driver_api.h"
#include "tests/support/catch.h"

#ifdef EPIFUSE_HAVE_CUDA_H
#include <cuda.h>

namespace cuda = epifuse::cuda;

namespace {

template <class A, class B>
constexpr bool same_kind =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                                  std::is_floating_point_v<B>;

template <class Theirs, class Ours>
struct SameAbi : std::false_type {};
template <class... T, class... O>
requires(sizeof...(T) == sizeof...(O)) struct SameAbi<CUresult (*)(T...), cuda::Code (*)(O...)>
    : std::bool_constant<(same_kind<T, O> && ...)> {
};

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

}  // namespace

#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters)                                     \
  static_assert(SameAbi<decltype(&symbol), epifuse::runtime::driver_entries::field>::value, \
                #symbol " is declared differently in <cuda.h>");
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY

TEST_CASE("our declarations agree with <cuda.h>") {
  CHECK(sizeof(cuda::Code) == sizeof(CUresult));
  CHECK(same(cuda::Code::invalid_value, CUDA_ERROR_INVALID_VALUE));
  CHECK(same(cuda::Code::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
  CHECK(same(cuda::Code::stub_library, CUDA_ERROR_STUB_LIBRARY));
  CHECK(same(cuda::Code::no_device, CUDA_ERROR_NO_DEVICE));
  CHECK(same(cuda::Code::invalid_image, CUDA_ERROR_INVALID_IMAGE));
  CHECK(same(cuda::Code::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
  CHECK(same(cuda::Code::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
  CHECK(same(cuda::Code::not_found, CUDA_ERROR_NOT_FOUND));
  CHECK(same(cuda::Code::not_ready, CUDA_ERROR_NOT_READY));
  CHECK(same(cuda::Code::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));

  CHECK(same(cuda::DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  CHECK(same(cuda::DeviceAttribute::l2_cache_size, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  CHECK(same(cuda::DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CHECK(same(cuda::DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  CHECK(same(cuda::DeviceAttribute::max_shared_memory_per_block_optin,
             CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  CHECK(same(cuda::FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  CHECK(same(cuda::FunctionAttribute::static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  CHECK(same(cuda::FunctionAttribute::max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  CHECK(same(cuda::PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
  CHECK(same(cuda::PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
  CHECK(same(cuda::MemoryType::host, CU_MEMORYTYPE_HOST));
  CHECK(same(cuda::MemoryType::device, CU_MEMORYTYPE_DEVICE));
  CHECK(same(cuda::MemoryType::unified, CU_MEMORYTYPE_UNIFIED));
  CHECK(same(cuda::stream_non_blocking, CU_STREAM_NON_BLOCKING));
  CHECK(same(cuda::event_default, CU_EVENT_DEFAULT));
  CHECK(same(cuda::CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(same(cuda::CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));

  CHECK(sizeof(cuda::TensorMap) == sizeof(CUtensorMap));
  CHECK(alignof(CUtensorMap) % alignof(cuda::TensorMap) == 0);
  CHECK(same(cuda::TensorMapDataType::uint8, CU_TENSOR_MAP_DATA_TYPE_UINT8));
  CHECK(same(cuda::TensorMapDataType::float16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
  CHECK(same(cuda::TensorMapDataType::float32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32));
  CHECK(same(cuda::TensorMapDataType::bfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
  CHECK(same(cuda::TensorMapInterleave::none, CU_TENSOR_MAP_INTERLEAVE_NONE));
  CHECK(same(cuda::TensorMapSwizzle::none, CU_TENSOR_MAP_SWIZZLE_NONE));
  CHECK(same(cuda::TensorMapSwizzle::b32, CU_TENSOR_MAP_SWIZZLE_32B));
  CHECK(same(cuda::TensorMapSwizzle::b64, CU_TENSOR_MAP_SWIZZLE_64B));
  CHECK(same(cuda::TensorMapSwizzle::b128, CU_TENSOR_MAP_SWIZZLE_128B));
  CHECK(same(cuda::TensorMapL2Promotion::b256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
  CHECK(same(cuda::TensorMapFill::zero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));

  CHECK(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
  CHECK(offsetof(cuda::LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
  CHECK(offsetof(cuda::LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
  CHECK(offsetof(cuda::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
  CHECK(offsetof(cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
  CHECK(offsetof(cuda::LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

  CHECK(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
  CHECK(offsetof(cuda::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
  CHECK(offsetof(cuda::LaunchAttribute, value.programmatic_stream_serialization) ==
        offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed));
  CHECK(same(cuda::LaunchAttributeId::programmatic_stream_serialization,
             CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));

  CHECK(sizeof(cuda::AllocationProperties) == sizeof(CUmemAllocationProp));
  CHECK(offsetof(cuda::AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
  CHECK(offsetof(cuda::AllocationProperties, win32_handle) == offsetof(CUmemAllocationProp, win32HandleMetaData));
  CHECK(offsetof(cuda::AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
  CHECK(sizeof(cuda::AccessDescription) == sizeof(CUmemAccessDesc));
  CHECK(offsetof(cuda::AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
  CHECK(same(cuda::AllocationType::pinned, CU_MEM_ALLOCATION_TYPE_PINNED));
  CHECK(same(cuda::LocationType::device, CU_MEM_LOCATION_TYPE_DEVICE));
  CHECK(same(cuda::AccessFlags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(same(cuda::GranularityFlag::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}
#else
TEST_CASE("our declarations agree with <cuda.h>") { WARN("no cuda.h on this machine: not compared"); }
#endif
