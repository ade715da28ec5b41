#include "jit/device_tensor.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"

namespace epifuse::jit {

using runtime::GuardBuffer;

Result<DeviceTensor> DeviceTensor::allocate(const runtime::DevicePtr& device, const RecipeTensor& tensor,
                                            const std::vector<int64_t>& extents, size_t bytes, cuda::Stream stream) {
  EPIFUSE_ENSURE(static_cast<size_t>(tensor.pointer_axes) <= extents.size(), "a tensor with too few extents");
  size_t count = 1;
  for (int axis = 0; axis < tensor.pointer_axes; ++axis)
    count *= static_cast<size_t>(extents[static_cast<size_t>(axis)]);
  DeviceTensor made;
  made.bytes_ = bytes;
  made.buffer_bytes_ = count == 0 ? 0 : bytes / count;
  if (made.buffer_bytes_ * count != bytes) {
    return user_error(
        fmt::format("'{}': {} buffers of {} bytes in all; each must be whole bytes", tensor.name, count, bytes));
  }
  for (size_t i = 0; i < count; ++i) {
    Result<GuardBuffer> buffer =
        GuardBuffer::allocate(device, made.buffer_bytes_, static_cast<size_t>(tensor.alignment));
    if (!buffer) return buffer.error();
    made.buffers_.push_back(*std::move(buffer));
  }
  if (tensor.pointer_axes == 0) return made;
  for (const GuardBuffer& buffer : made.buffers_) made.pointers_.push_back(buffer.pointer());
  const auto raw = std::as_bytes(std::span(made.pointers_));
  Result<GuardBuffer> array = GuardBuffer::allocate(device, raw.size(), sizeof(uint64_t));
  if (!array) return array.error();
  if (Status uploaded = array->upload(raw, stream); !uploaded) return uploaded.error();
  made.array_.push_back(*std::move(array));
  return made;
}

cuda::DevicePointer DeviceTensor::pointer() const { return (array_.empty() ? buffers_ : array_).front().pointer(); }

Status DeviceTensor::fill(unsigned char value, cuda::Stream stream) {
  for (GuardBuffer& buffer : buffers_)
    if (Status filled = buffer.fill(value, stream); !filled) return filled;
  return {};
}

Status DeviceTensor::upload(std::span<const std::byte> from, cuda::Stream stream) {
  EPIFUSE_ENSURE(from.size() <= bytes_, "upload past the end of a tensor");
  for (GuardBuffer& buffer : buffers_) {
    const size_t part = std::min(from.size(), buffer_bytes_);
    if (Status uploaded = buffer.upload(from.first(part), stream); !uploaded) return uploaded;
    from = from.subspan(part);
  }
  return {};
}

Status DeviceTensor::download(std::span<std::byte> to, cuda::Stream stream) const {
  EPIFUSE_ENSURE(to.size() <= bytes_, "download past the end of a tensor");
  for (const GuardBuffer& buffer : buffers_) {
    const size_t part = std::min(to.size(), buffer_bytes_);
    if (Status downloaded = buffer.download(to.first(part), stream); !downloaded) return downloaded;
    to = to.subspan(part);
  }
  return {};
}

Result<size_t> DeviceTensor::bytes_touched_around(cuda::Stream stream) const {
  size_t sum = 0;
  for (const std::vector<GuardBuffer>* list : {&buffers_, &array_}) {
    for (const GuardBuffer& buffer : *list) {
      const Result<size_t> touched = buffer.bytes_touched_around(stream);
      if (!touched) return touched;
      sum += *touched;
    }
  }
  return sum;
}

Result<bool> DeviceTensor::pointers_written(cuda::Stream stream) const {
  if (array_.empty()) return false;
  std::vector<uint64_t> now(pointers_.size());
  const Status copied = array_.front().download(std::as_writable_bytes(std::span(now)), stream);
  if (!copied) return copied.error();
  return now != pointers_;
}

}  // namespace epifuse::jit
