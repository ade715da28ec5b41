#include "tools/find_gpu.h"

namespace epifuse::tools {

Result<Gpu> find_gpu() {
  Result<runtime::Driver> driver = runtime::load_driver();
  if (!driver) return driver.error();
  const Result<std::vector<runtime::DeviceInfo>> devices = runtime::list_devices(**driver);
  if (!devices) return devices.error();
  Error reason = environment_error("the driver sees no GPU");
  for (const runtime::DeviceInfo& info : *devices) {
    const Result<Target> target = runtime::target_of(info);
    if (!target) {
      reason = target.error();
      continue;
    }
    Result<runtime::DevicePtr> device = runtime::Device::open(*driver, info.ordinal);
    if (device) return Gpu{*std::move(device), *target};
    reason = device.error();
  }
  return reason;
}

}  // namespace epifuse::tools
