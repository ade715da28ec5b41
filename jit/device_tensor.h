// A host tensor's memory on the GPU. A tensor with pointer axes (`bf16[E][N, K]`) is one array on the host; on the GPU
// each of its buffers is an allocation of its own, and what is bound is an array of pointers to them.
#pragma once

#include <span>
#include <vector>

#include "base/launch_recipe.h"
#include "runtime/guard_buffer.h"

namespace epifuse::jit {

class DeviceTensor {
 public:
  // Memory for `extents` (all of them, the pointer axes first) of `bytes` in all. Every buffer, and the array of
  // pointers, ends at an unmapped page.
  static Result<DeviceTensor> allocate(const runtime::DevicePtr& device, const RecipeTensor& tensor,
                                       const std::vector<int64_t>& extents, size_t bytes, cuda::Stream stream);

  cuda::DevicePointer pointer() const;  // that is bound: of the buffer, or of the array of pointers
  size_t bytes() const { return bytes_; }

  // As those of GuardBuffer; host memory is contiguous over all buffers, and may be shorter than the tensor.
  Status fill(unsigned char value, cuda::Stream stream);
  Status upload(std::span<const std::byte> from, cuda::Stream stream);
  Status download(std::span<std::byte> to, cuda::Stream stream) const;

  Result<size_t> bytes_touched_around(cuda::Stream stream) const;
  Result<bool> pointers_written(cuda::Stream stream) const;  // whether the array of pointers is another one now

 private:
  DeviceTensor() = default;

  std::vector<runtime::GuardBuffer> buffers_;
  std::vector<runtime::GuardBuffer> array_;  // of pointers; one or none
  std::vector<uint64_t> pointers_;           // what the array holds
  size_t bytes_ = 0, buffer_bytes_ = 0;
};

}  // namespace epifuse::jit
