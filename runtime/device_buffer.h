// Device memory with an owner, and copies to and from it. For tools and tests: a launch allocates nothing.
#pragma once

#include <span>

#include "runtime/owned.h"

namespace epifuse::runtime {

class DeviceBuffer {
 public:
  // 0 bytes are allowed and have a null pointer. No memory: an environment error with what was asked for and what is
  // free.
  static Result<DeviceBuffer> allocate(const DevicePtr& device, size_t bytes);

  cuda::DevicePointer pointer() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

  // All wait until the operation is done. Offsets and lengths must lie inside the buffer (InternalError).
  Status fill(unsigned char value, cuda::Stream stream);
  Status upload(std::span<const std::byte> from, cuda::Stream stream, size_t offset = 0);
  Status download(std::span<std::byte> to, cuda::Stream stream, size_t offset = 0) const;

 private:
  using OwnedMemory = Owned<cuda::DevicePointer, &DriverApi::mem_free>;
  DeviceBuffer(OwnedMemory memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  OwnedMemory memory_;
  size_t bytes_;
};

}  // namespace epifuse::runtime
