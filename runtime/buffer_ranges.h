// Where the buffers of a call lie, and what the host sees of their addresses without asking the driver.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/launch_recipe.h"
#include "runtime/cuda_types.h"

namespace epifuse::runtime {

// A buffer, an array of pointers, or the workspace.
struct BufferRange {
  cuda::DevicePointer begin = 0;
  uint64_t bytes = 0;      // 0: nothing is ever read or written there
  uint32_t alignment = 1;  // bytes
  bool written = false;
};

// "tensor 'x'", "the array of pointers of tensor 'w'"; the index behind the tensors is the workspace's.
std::string buffer_text(const LaunchRecipe& recipe, size_t index);

// Errors (user), made only when there is one: null, misaligned, or past the end of memory.
Status check_address(const LaunchRecipe& recipe, size_t index, const BufferRange& buffer);
// … two of them share bytes, and one is written. In the recipe's order, the workspace last.
Status check_overlap(const LaunchRecipe& recipe, std::span<const BufferRange> buffers);

}  // namespace epifuse::runtime
