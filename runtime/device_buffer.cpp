// Device memory and blocking copies.
#include "runtime/device_buffer.h"

#include <fmt/format.h>

#include "base/ensure.h"
#include "runtime/stream.h"

namespace epifuse::runtime {
namespace {

// `enqueue` puts one copy on the stream; then waits for it.
template <class F>
Status run(const Device& device, cuda::Stream stream, std::string_view doing, F enqueue) {
  const CurrentContext scope(device);
  auto code = scope.code();
  if (code == cuda::Code::success) code = enqueue(device.driver());
  if (code == cuda::Code::success) code = device.driver().stream_synchronize(stream);
  return check(device.driver(), code, doing);
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(const DevicePtr& device, size_t bytes) {
  if (bytes == 0) return DeviceBuffer(OwnedMemory(device, 0), 0);
  const DriverApi& driver = device->driver();
  const CurrentContext scope(*device);
  cuda::DevicePointer pointer = 0;
  auto code = scope.code();
  if (code == cuda::Code::success) code = driver.mem_alloc(&pointer, bytes);
  if (code == cuda::Code::success) return DeviceBuffer(OwnedMemory(device, pointer), bytes);
  size_t free_bytes = 0, total_bytes = 0;
  (void)driver.mem_get_info(&free_bytes, &total_bytes);
  return driver_error(driver, code,
                      fmt::format("allocating {} bytes on GPU {} ({} of {} are free)", bytes, device->info().ordinal,
                                  free_bytes, total_bytes));
}

Status DeviceBuffer::fill(unsigned char value, cuda::Stream stream) {
  if (bytes_ == 0) return {};
  return run(*memory_.device(), stream, "filling a buffer",
             [&](const DriverApi& driver) { return driver.memset_d8_async(pointer(), value, bytes_, stream); });
}

Status DeviceBuffer::upload(std::span<const std::byte> from, cuda::Stream stream, size_t offset) {
  EPIFUSE_ENSURE(offset <= bytes_ && from.size() <= bytes_ - offset, "upload past the end of a buffer");
  if (from.empty()) return {};
  return run(*memory_.device(), stream, "copying to the GPU", [&](const DriverApi& driver) {
    return driver.memcpy_htod_async(pointer() + offset, from.data(), from.size(), stream);
  });
}

Status DeviceBuffer::download(std::span<std::byte> to, cuda::Stream stream, size_t offset) const {
  EPIFUSE_ENSURE(offset <= bytes_ && to.size() <= bytes_ - offset, "download past the end of a buffer");
  if (to.empty()) return {};
  return run(*memory_.device(), stream, "copying from the GPU", [&](const DriverApi& driver) {
    return driver.memcpy_dtoh_async(to.data(), pointer() + offset, to.size(), stream);
  });
}

}  // namespace epifuse::runtime
