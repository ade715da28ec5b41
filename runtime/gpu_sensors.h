// What a GPU's sensors say: SM clock, power, temperature. They come from NVML (libnvidia-ml.so.1), which is opened at
// run time; where it is missing, nothing is known and everything else goes on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/device.h"

namespace epifuse::runtime {

// NVML as a table of function pointers. An ordinary struct: tests fill it with a fake.
struct NvmlApi {
  using Handle = struct NvmlDeviceOpaque*;  // nvmlDevice_t
  int (*init)() = nullptr;                  // nvmlInit_v2; all return 0 when they succeed
  int (*device_by_pci_bus_id)(const char*, Handle*) = nullptr;
  int (*clock_info)(Handle, int clock, unsigned* mhz) = nullptr;
  int (*max_clock_info)(Handle, int clock, unsigned* mhz) = nullptr;
  int (*power_usage)(Handle, unsigned* milliwatts) = nullptr;
  int (*enforced_power_limit)(Handle, unsigned* milliwatts) = nullptr;
  int (*temperature)(Handle, int sensor, unsigned* celsius) = nullptr;
  int (*driver_version)(char* text, unsigned length) = nullptr;
};
using Nvml = std::shared_ptr<const NvmlApi>;

// Opens NVML. Errors (environment): no such library, or one without these functions, or one that does not start.
Result<Nvml> load_nvml(const char* library = "libnvidia-ml.so.1");

// One look at the sensors. What a GPU does not tell stays empty.
struct SensorReading {
  std::optional<double> sm_clock_mhz, watts, celsius;
};

class GpuSensors {
 public:
  // The sensors of a device, found by its PCI address (NVML and CUDA count devices differently).
  static Result<GpuSensors> open(Nvml nvml, const Device& device);

  SensorReading read() const;                      // takes no lock of the CUDA driver; a few microseconds to 1 ms
  std::optional<double> max_sm_clock_mhz() const;  // that the card ever runs at
  std::optional<double> power_limit_watts() const;
  std::string driver_version() const;  // "580.95.05"; empty when it is not told

 private:
  GpuSensors(Nvml nvml, NvmlApi::Handle handle) : nvml_(std::move(nvml)), handle_(handle) {}

  Nvml nvml_;
  NvmlApi::Handle handle_;
};

}  // namespace epifuse::runtime
