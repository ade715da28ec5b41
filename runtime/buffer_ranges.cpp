// A rebind does these checks at every step of a training loop: nothing is allocated unless there is an error to tell.
#include "runtime/buffer_ranges.h"

#include <fmt/format.h>

namespace epifuse::runtime {

std::string buffer_text(const LaunchRecipe& recipe, size_t index) {
  if (index == recipe.tensors.size()) return "the workspace";
  const RecipeTensor& tensor = recipe.tensors[index];
  return fmt::format("{}tensor '{}'", tensor.pointer_axes == 0 ? "" : "the array of pointers of ", tensor.name);
}

Status check_address(const LaunchRecipe& recipe, size_t index, const BufferRange& buffer) {
  if (buffer.bytes == 0) return {};
  if (buffer.begin == 0) return user_error(fmt::format("{} has a null pointer", buffer_text(recipe, index)));
  if (buffer.begin % buffer.alignment != 0) {
    return user_error(fmt::format("{} is at {:#x}, wanted an address that is a multiple of {}",
                                  buffer_text(recipe, index), buffer.begin, buffer.alignment));
  }
  if (buffer.begin + buffer.bytes < buffer.begin) {
    return user_error(
        fmt::format("{} at {:#x} reaches past the end of memory", buffer_text(recipe, index), buffer.begin));
  }
  return {};
}

Status check_overlap(const LaunchRecipe& recipe, std::span<const BufferRange> buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const BufferRange &a = buffers[j], &b = buffers[i];
      const uint64_t a_end = a.begin + a.bytes, b_end = b.begin + b.bytes;
      if ((!a.written && !b.written) || a.bytes == 0 || b.bytes == 0 || a.begin >= b_end || b.begin >= a_end) continue;
      return user_error(fmt::format("{} ({:#x} to {:#x}) and {} ({:#x} to {:#x}) overlap, and one of them is written",
                                    buffer_text(recipe, j), a.begin, a_end, buffer_text(recipe, i), b.begin, b_end));
    }
  }
  return {};
}

}  // namespace epifuse::runtime
