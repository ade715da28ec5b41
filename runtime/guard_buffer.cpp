// Memory with a guard page: more addresses are reserved than get memory.
#include "runtime/guard_buffer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ensure.h"
#include "runtime/stream.h"

namespace epifuse::runtime {

using cuda::Code;

namespace {
constexpr unsigned char untouched = 0xff;
}

Result<GuardBuffer> GuardBuffer::allocate(const DevicePtr& device, size_t bytes, size_t alignment) {
  GuardBuffer buffer;
  buffer.device_ = device;
  if (bytes == 0) return buffer;
  const DriverApi& driver = device->driver();
  const CurrentContext scope(*device);
  cuda::AllocationProperties properties{};
  properties.type = cuda::AllocationType::pinned;
  properties.location = {cuda::LocationType::device, device->info().ordinal};
  size_t granule = 0;
  Code code = scope.code();
  if (code == Code::success) {
    code = driver.mem_get_allocation_granularity(&granule, &properties, cuda::GranularityFlag::minimum);
  }
  if (code == Code::success) {
    const size_t mapped = (bytes + alignment - 1 + granule - 1) / granule * granule;
    code = driver.mem_address_reserve(&buffer.reserved_, mapped + granule, 0, 0, 0);
    if (code == Code::success) buffer.reserved_bytes_ = mapped + granule;
    if (code == Code::success) code = driver.mem_create(&buffer.memory_, mapped, &properties, 0);
    if (code == Code::success) code = driver.mem_map(buffer.reserved_, mapped, 0, buffer.memory_, 0);
    if (code == Code::success) buffer.mapped_bytes_ = mapped;
  }
  const cuda::AccessDescription access = {properties.location, cuda::AccessFlags::read_write};
  if (code == Code::success) code = driver.mem_set_access(buffer.reserved_, buffer.mapped_bytes_, &access, 1);
  if (code != Code::success) return driver_error(driver, code, "allocating memory with a guard page");
  buffer.bytes_ = bytes;
  buffer.pointer_ = (buffer.reserved_ + buffer.mapped_bytes_ - bytes) / alignment * alignment;
  code = driver.memset_d8_async(buffer.reserved_, untouched, buffer.mapped_bytes_, nullptr);
  if (code != Code::success) return driver_error(driver, code, "filling a guarded buffer");
  if (Status filled = synchronize(*device, nullptr, "filling a guarded buffer"); !filled) return filled.error();
  return buffer;
}

GuardBuffer::GuardBuffer(GuardBuffer&& other) noexcept
    : device_(std::move(other.device_)),
      reserved_(std::exchange(other.reserved_, 0)),
      reserved_bytes_(std::exchange(other.reserved_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      memory_(std::exchange(other.memory_, 0)),
      pointer_(std::exchange(other.pointer_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

GuardBuffer::~GuardBuffer() {
  if (reserved_bytes_ == 0) return;
  const DriverApi& driver = device_->driver();
  const CurrentContext scope(*device_);
  if (mapped_bytes_ != 0) (void)driver.mem_unmap(reserved_, mapped_bytes_);
  if (memory_ != 0) (void)driver.mem_release(memory_);
  (void)driver.mem_address_free(reserved_, reserved_bytes_);
}

Status GuardBuffer::fill(unsigned char value, cuda::Stream stream) {
  if (bytes_ == 0) return {};
  const CurrentContext scope(*device_);
  const Code code = device_->driver().memset_d8_async(pointer_, value, bytes_, stream);
  if (code != Code::success) return driver_error(device_->driver(), code, "filling a guarded buffer");
  return synchronize(*device_, stream, "filling a guarded buffer");
}

Status GuardBuffer::upload(std::span<const std::byte> from, cuda::Stream stream) {
  EPIFUSE_ENSURE(from.size() <= bytes_, "upload past the end of a buffer");
  if (from.empty()) return {};
  const CurrentContext scope(*device_);
  const Code code = device_->driver().memcpy_htod_async(pointer_, from.data(), from.size(), stream);
  if (code != Code::success) return driver_error(device_->driver(), code, "copying to a guarded buffer");
  return synchronize(*device_, stream, "copying to a guarded buffer");
}

Status GuardBuffer::download(std::span<std::byte> to, cuda::Stream stream) const {
  EPIFUSE_ENSURE(to.size() <= bytes_, "download past the end of a buffer");
  if (to.empty()) return {};
  const CurrentContext scope(*device_);
  const Code code = device_->driver().memcpy_dtoh_async(to.data(), pointer_, to.size(), stream);
  if (code != Code::success) return driver_error(device_->driver(), code, "copying from a guarded buffer");
  return synchronize(*device_, stream, "copying from a guarded buffer");
}

Result<size_t> GuardBuffer::bytes_touched_around(cuda::Stream stream) const {
  size_t touched = 0;
  const CurrentContext scope(*device_);
  const auto count = [&](cuda::DevicePointer from, size_t bytes) -> Status {
    std::vector<unsigned char> copy(bytes);
    if (bytes == 0) return {};
    const Code code = device_->driver().memcpy_dtoh_async(copy.data(), from, bytes, stream);
    if (code != Code::success) return driver_error(device_->driver(), code, "reading around a guarded buffer");
    if (Status done = synchronize(*device_, stream, "reading around a guarded buffer"); !done) return done;
    touched += bytes - static_cast<size_t>(std::count(copy.begin(), copy.end(), untouched));
    return {};
  };
  if (bytes_ == 0) return touched;
  if (Status before = count(reserved_, pointer_ - reserved_); !before) return before.error();
  const cuda::DevicePointer end = pointer_ + bytes_;
  if (Status behind = count(end, reserved_ + mapped_bytes_ - end); !behind) return behind.error();
  return touched;
}

}  // namespace epifuse::runtime
