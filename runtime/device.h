// GPUs: what they are, and the context of one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/driver_api.h"

namespace epifuse::runtime {

// What the driver says about a device. On a MIG slice these are the slice's numbers.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int sm_count = 0;          // multiprocessors
  size_t memory_bytes = 0;
  int l2_bytes = 0;
  int shared_bytes_per_block = 0;  // the most a block can opt in to
  // Whether a launch may start before the one in front of it has ended (programmatic dependent launch), captured or
  // not.
  bool overlaps_launches = false;
};

Result<std::vector<DeviceInfo>> list_devices(const DriverApi& driver);

// The newest CUDA version that the driver supports, as 1000 * major + 10 * minor.
Result<int> driver_version(const DriverApi& driver);

// Ordinal of the device whose context is current on this thread; 0 when the thread has none.
Result<int> current_device(const DriverApi& driver);

// The target whose code runs on the device, with the device's own limits.
Result<Target> target_of(const DeviceInfo& device);

// A device with its primary context, which is retained as long as this object lives. Shared by everything on it.
class Device {
 public:
  // Errors: no such ordinal (user); the driver cannot make a context (environment).
  static Result<std::shared_ptr<const Device>> open(Driver driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  const DriverApi& driver() const { return *driver_; }
  cuda::DeviceHandle handle() const { return handle_; }
  cuda::Context context() const { return context_; }

 private:
  Device(Driver driver, cuda::DeviceHandle handle, DeviceInfo info, cuda::Context context)
      : driver_(std::move(driver)), handle_(handle), info_(std::move(info)), context_(context) {}

  Driver driver_;
  cuda::DeviceHandle handle_;
  DeviceInfo info_;
  cuda::Context context_;
};

using DevicePtr = std::shared_ptr<const Device>;

// Makes a context of the device current on this thread for a scope. A context of the same device that is current
// already stays (a framework's stream may belong to it); otherwise the primary one is pushed, and popped at the end.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  cuda::Code code() const { return code_; }        // success, or why there is no context
  bool is_primary() const { return is_primary_; }  // handles of the primary context may be used

 private:
  const Device& device_;
  cuda::Code code_;
  bool is_primary_ = false;
  bool pushed_ = false;
};

}  // namespace epifuse::runtime
