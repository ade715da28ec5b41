// Evaluating a map of the recipe and having the driver encode it.
#include "runtime/tensor_map.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ensure.h"

namespace epifuse::runtime {
namespace {

constexpr size_t most_axes = 5;
constexpr int64_t stride_multiple = 16;
// Where a map without memory points. Any aligned address but null will do.
constexpr cuda::DevicePointer nowhere = 256;

cuda::TensorMapDataType data_type(TensorMapType type) {
  switch (type) {
    case TensorMapType::u8: return cuda::TensorMapDataType::uint8;
    case TensorMapType::f16: return cuda::TensorMapDataType::float16;
    case TensorMapType::bf16: return cuda::TensorMapDataType::bfloat16;
    case TensorMapType::f32: return cuda::TensorMapDataType::float32;
  }
  EPIFUSE_ENSURE(false, "unknown tensor map type");
}

cuda::TensorMapSwizzle swizzle_mode(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return cuda::TensorMapSwizzle::none;
    case Swizzle::b32: return cuda::TensorMapSwizzle::b32;
    case Swizzle::b64: return cuda::TensorMapSwizzle::b64;
    case Swizzle::b128: return cuda::TensorMapSwizzle::b128;
  }
  EPIFUSE_ENSURE(false, "unknown swizzle");
}

}  // namespace

Status encode_tensor_map(const DriverApi& driver, const CompiledRecipe& recipe, size_t index,
                         cuda::DevicePointer pointer, IntProgram::Slots slots, void* out) {
  const TensorMapRecipe& map = recipe.recipe.maps[index];
  const CompiledRecipe::Map& programs = recipe.maps[index];
  const size_t rank = map.extents.size();
  std::array<uint64_t, most_axes> extents{}, strides{};
  const auto refuse = [&](std::string_view what) {
    return user_error(fmt::format("tensor '{}' cannot be read by TMA: {}", map.tensor, what));
  };

  for (size_t axis = 0; axis < rank; ++axis) {
    const auto value = programs.extents[axis].evaluate(slots);
    if (!value) return refuse(value.error().message);
    if (*value > most_map_extent) return refuse(fmt::format("axis {} has {} elements", axis, *value));
    extents[axis] = static_cast<uint64_t>(std::max<int64_t>(*value, 1));
  }
  for (size_t axis = 0; axis + 1 < rank; ++axis) {
    const auto value = programs.strides[axis].evaluate(slots);
    if (!value) return refuse(value.error().message);
    if (*value < 0 || *value > most_map_stride || *value % stride_multiple != 0) {
      return refuse(
          fmt::format("a stride of {} bytes; it must be a multiple of {} below 2^40", *value, stride_multiple));
    }
    strides[axis] = static_cast<uint64_t>(*value);
  }
  const auto offset = programs.byte_offset.evaluate(slots);
  if (!offset) return refuse(offset.error().message);
  const cuda::DevicePointer base = pointer == 0 ? nowhere : pointer + static_cast<uint64_t>(*offset);
  if (base % 16 != 0) return refuse(fmt::format("its base {:#x} is not a multiple of 16", base));

  const auto code = driver.tensor_map_encode_tiled(
      static_cast<cuda::TensorMap*>(out), data_type(map.type), static_cast<uint32_t>(rank),
      reinterpret_cast<void*>(base), extents.data(), strides.data(), map.box.data(), map.element_strides.data(),
      cuda::TensorMapInterleave::none, swizzle_mode(map.swizzle), cuda::TensorMapL2Promotion::b256,
      cuda::TensorMapFill::zero);
  if (code == cuda::Code::success) return {};
  return driver_error(
      driver, code,
      fmt::format("tensor '{}': encoding a TMA map (base {:#x}, extents {}, strides {}, box {}, element strides {})",
                  map.tensor, base, fmt::join(extents.begin(), extents.begin() + rank, "x"),
                  fmt::join(strides.begin(), strides.begin() + rank - 1, ","), fmt::join(map.box, "x"),
                  fmt::join(map.element_strides, ",")));
}

}  // namespace epifuse::runtime
