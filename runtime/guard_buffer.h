// Device memory that ends exactly at an unmapped page, so that reading or writing one byte past the end faults instead
// of finding a neighbour's memory. For tools and tests that prove a kernel right.
#pragma once

#include <span>

#include "runtime/device.h"

namespace epifuse::runtime {

class GuardBuffer {
 public:
  // `bytes` (0: a null pointer) end at the end of what is mapped; behind lies at least one granule (2 MiB) of reserved
  // addresses without memory. If bytes is no multiple of `alignment`, the buffer ends up to alignment - 1 bytes
  // earlier, so that the pointer is aligned. Filled with 0xff, which is a NaN in every floating-point type.
  static Result<GuardBuffer> allocate(const DevicePtr& device, size_t bytes, size_t alignment = 16);
  ~GuardBuffer();
  GuardBuffer(GuardBuffer&& other) noexcept;
  GuardBuffer& operator=(GuardBuffer&&) = delete;

  cuda::DevicePointer pointer() const { return pointer_; }
  size_t bytes() const { return bytes_; }

  // As those of DeviceBuffer.
  Status fill(unsigned char value, cuda::Stream stream);
  Status upload(std::span<const std::byte> from, cuda::Stream stream);
  Status download(std::span<std::byte> to, cuda::Stream stream) const;

  // How many of the mapped bytes around the buffer (less than a granule before it, less than `alignment` behind it) are
  // no longer as they were allocated: whoever wrote them had no business there.
  Result<size_t> bytes_touched_around(cuda::Stream stream) const;

 private:
  GuardBuffer() = default;

  DevicePtr device_;
  cuda::DevicePointer reserved_ = 0;  // start of the reserved addresses
  size_t reserved_bytes_ = 0, mapped_bytes_ = 0;
  cuda::AllocationHandle memory_ = 0;
  cuda::DevicePointer pointer_ = 0;
  size_t bytes_ = 0;
};

}  // namespace epifuse::runtime
