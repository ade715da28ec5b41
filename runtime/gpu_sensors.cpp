#include "runtime/gpu_sensors.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace epifuse::runtime {
namespace {

constexpr int sm_clock = 1;    // NVML_CLOCK_SM
constexpr int gpu_sensor = 0;  // NVML_TEMPERATURE_GPU

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

// What `call` writes through its last argument, or nothing when it fails.
template <class Call>
std::optional<double> told(Call call, double parts = 1) {
  unsigned value = 0;
  if (call(&value) != 0) return std::nullopt;
  return value / parts;
}

}  // namespace

Result<Nvml> load_nvml(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return environment_error(
        fmt::format("clock and power are unknown: {} cannot be opened ({})", library, reason ? reason : "no reason"));
  }
  auto api = std::make_shared<NvmlApi>();
  const bool complete = find(handle, "nvmlInit_v2", api->init) &&
                        find(handle, "nvmlDeviceGetHandleByPciBusId_v2", api->device_by_pci_bus_id) &&
                        find(handle, "nvmlDeviceGetClockInfo", api->clock_info) &&
                        find(handle, "nvmlDeviceGetMaxClockInfo", api->max_clock_info) &&
                        find(handle, "nvmlDeviceGetPowerUsage", api->power_usage) &&
                        find(handle, "nvmlDeviceGetEnforcedPowerLimit", api->enforced_power_limit) &&
                        find(handle, "nvmlDeviceGetTemperature", api->temperature) &&
                        find(handle, "nvmlSystemGetDriverVersion", api->driver_version);
  if (!complete) return environment_error(fmt::format("clock and power are unknown: {} is too old", library));
  if (const int code = api->init(); code != 0)
    return environment_error(fmt::format("clock and power are unknown: {} does not start (error {})", library, code));
  return Nvml(std::move(api));
}

Result<GpuSensors> GpuSensors::open(Nvml nvml, const Device& device) {
  const DriverApi& driver = device.driver();
  char address[32] = {};
  const auto code = driver.device_get_pci_bus_id(address, sizeof address, device.handle());
  if (code != cuda::Code::success) return driver_error(driver, code, "asking for a GPU's PCI address");
  NvmlApi::Handle handle = nullptr;
  if (const int failed = nvml->device_by_pci_bus_id(address, &handle); failed != 0)
    return environment_error(
        fmt::format("clock and power are unknown: NVML does not know the GPU at {} (error {})", address, failed));
  return GpuSensors(std::move(nvml), handle);
}

SensorReading GpuSensors::read() const {
  SensorReading reading;
  reading.sm_clock_mhz = told([&](unsigned* mhz) { return nvml_->clock_info(handle_, sm_clock, mhz); });
  reading.watts = told([&](unsigned* milliwatts) { return nvml_->power_usage(handle_, milliwatts); }, 1000);
  reading.celsius = told([&](unsigned* celsius) { return nvml_->temperature(handle_, gpu_sensor, celsius); });
  return reading;
}

std::optional<double> GpuSensors::max_sm_clock_mhz() const {
  return told([&](unsigned* mhz) { return nvml_->max_clock_info(handle_, sm_clock, mhz); });
}

std::optional<double> GpuSensors::power_limit_watts() const {
  return told([&](unsigned* milliwatts) { return nvml_->enforced_power_limit(handle_, milliwatts); }, 1000);
}

std::string GpuSensors::driver_version() const {
  char text[96] = {};  // NVML asks for 80 at most
  return nvml_->driver_version(text, sizeof text - 1) == 0 ? text : "";
}

}  // namespace epifuse::runtime
