#include "deploy/device_table.h"

#include <fmt/format.h>

#include "deploy/prepared_kernels.h"

namespace epifuse::deploy {

Result<runtime::DevicePtr> DeviceTable::open(int ordinal) {
  if (ordinal == no_device) return runtime::DevicePtr();
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!driver_) {
    if (sealed_) return sealed_error("the driver was not opened");
    Result<runtime::Driver> driver = load_driver_();
    if (!driver) return driver.error();
    driver_ = *std::move(driver);
  }
  if (ordinal == current_device) {
    const Result<int> current = runtime::current_device(*driver_);
    if (!current) return current.error();
    ordinal = *current;
  }
  if (const auto open = devices_.find(ordinal); open != devices_.end()) return open->second;
  if (sealed_) return sealed_error(fmt::format("GPU {} was not prepared", ordinal));
  Result<runtime::DevicePtr> device = runtime::Device::open(driver_, ordinal);
  if (device) devices_[ordinal] = *device;
  return device;
}

void DeviceTable::seal() {
  const std::lock_guard<std::mutex> guard(mutex_);
  sealed_ = true;
}

}  // namespace epifuse::deploy
