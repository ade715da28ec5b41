// Asking the driver about devices, and keeping the right context current.
#include "runtime/device.h"

#include <fmt/format.h>
#include <utility>

namespace epifuse::runtime {
namespace {

constexpr int captures_overlap = 12030;  // drivers before this one cannot capture dependent launches

Result<DeviceInfo> read_info(const DriverApi& driver, cuda::DeviceHandle handle, int ordinal) {
  DeviceInfo info;
  info.ordinal = ordinal;
  char name[256] = {};
  auto code = driver.device_get_name(name, sizeof name - 1, handle);
  if (code == cuda::Code::success) code = driver.device_total_mem(&info.memory_bytes, handle);
  const std::pair<cuda::DeviceAttribute, int*> attributes[] = {
      {cuda::DeviceAttribute::compute_capability_major, &info.major},
      {cuda::DeviceAttribute::compute_capability_minor, &info.minor},
      {cuda::DeviceAttribute::multiprocessor_count, &info.sm_count},
      {cuda::DeviceAttribute::l2_cache_size, &info.l2_bytes},
      {cuda::DeviceAttribute::max_shared_memory_per_block_optin, &info.shared_bytes_per_block}};
  for (const auto& [attribute, value] : attributes) {
    if (code == cuda::Code::success) code = driver.device_get_attribute(value, attribute, handle);
  }
  if (code != cuda::Code::success) return driver_error(driver, code, fmt::format("asking about GPU {}", ordinal));
  const auto version = driver_version(driver);
  if (!version) return version.error();
  info.name = name;
  info.overlaps_launches = info.major >= 9 && *version >= captures_overlap;
  return info;
}

Result<int> device_count(const DriverApi& driver) {
  int count = 0;
  if (const auto code = driver.device_get_count(&count); code != cuda::Code::success) {
    return driver_error(driver, code, "counting the GPUs");
  }
  return count;
}

Result<cuda::DeviceHandle> device_handle(const DriverApi& driver, int ordinal) {
  cuda::DeviceHandle handle = 0;
  if (const auto code = driver.device_get(&handle, ordinal); code != cuda::Code::success) {
    return driver_error(driver, code, fmt::format("asking for GPU {}", ordinal));
  }
  return handle;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices(const DriverApi& driver) {
  const auto count = device_count(driver);
  if (!count) return count.error();
  std::vector<DeviceInfo> list;
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    const auto handle = device_handle(driver, ordinal);
    if (!handle) return handle.error();
    auto info = read_info(driver, *handle, ordinal);
    if (!info) return info.error();
    list.push_back(std::move(*info));
  }
  return list;
}

Result<int> driver_version(const DriverApi& driver) {
  int version = 0;
  if (const auto code = driver.driver_get_version(&version); code != cuda::Code::success) {
    return driver_error(driver, code, "asking for the driver's version");
  }
  return version;
}

Result<int> current_device(const DriverApi& driver) {
  cuda::Context context = nullptr;
  auto code = driver.ctx_get_current(&context);
  if (code == cuda::Code::success && !context) return 0;
  cuda::DeviceHandle current = 0;
  if (code == cuda::Code::success) code = driver.ctx_get_device(&current);
  if (code != cuda::Code::success) return driver_error(driver, code, "asking for the current GPU");
  const auto count = device_count(driver);
  if (!count) return count.error();
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    const auto handle = device_handle(driver, ordinal);
    if (!handle) return handle.error();
    if (*handle == current) return ordinal;
  }
  return environment_error("the current CUDA context belongs to no visible GPU");
}

Result<Target> target_of(const DeviceInfo& device) {
  auto target = target_for_capability(device.major, device.minor);
  if (target) target->shared_bytes_per_block = device.shared_bytes_per_block;
  return target;
}

Result<std::shared_ptr<const Device>> Device::open(Driver driver, int ordinal) {
  const auto count = device_count(*driver);
  if (!count) return count.error();
  if (*count == 0) return environment_error("the NVIDIA driver finds no GPU");
  if (ordinal < 0 || ordinal >= *count) {
    return user_error(fmt::format("there is no GPU {}; this machine has {} (0 to {})", ordinal, *count, *count - 1));
  }
  const auto handle = device_handle(*driver, ordinal);
  if (!handle) return handle.error();
  auto info = read_info(*driver, *handle, ordinal);
  if (!info) return info.error();
  cuda::Context context = nullptr;
  if (const auto code = driver->device_primary_ctx_retain(&context, *handle); code != cuda::Code::success) {
    return driver_error(*driver, code, fmt::format("starting GPU {} ({})", ordinal, info->name));
  }
  return std::shared_ptr<const Device>(new Device(std::move(driver), *handle, std::move(*info), context));
}

// At the end of a process the driver may be gone already; what it answers then does not matter.
Device::~Device() { (void)driver_->device_primary_ctx_release(handle_); }

CurrentContext::CurrentContext(const Device& device) : device_(device) {
  const DriverApi& driver = device.driver();
  cuda::Context current = nullptr;
  code_ = driver.ctx_get_current(&current);
  if (code_ != cuda::Code::success) return;
  is_primary_ = current == device.context();
  if (is_primary_) return;
  if (current) {
    cuda::DeviceHandle owner = 0;
    code_ = driver.ctx_get_device(&owner);
    if (code_ != cuda::Code::success || owner == device.handle()) return;
  }
  code_ = driver.ctx_push_current(device.context());
  is_primary_ = pushed_ = code_ == cuda::Code::success;
}

CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (pushed_) (void)device_.driver().ctx_pop_current(&popped);
}

}  // namespace epifuse::runtime
