// Sensors through a table of our own: what is asked for, and what happens where the answer is missing.
#include "runtime/gpu_sensors.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/fake_driver.h"

namespace epifuse::runtime {
namespace {

using test::FakeDriver;

struct Fake {
  std::string address;
  unsigned clock = 1335, milliwatts = 698500;
  int clock_code = 0;
};
Fake fake;

Nvml table() {
  auto api = std::make_shared<NvmlApi>();
  api->init = [] { return 0; };
  api->device_by_pci_bus_id = [](const char* address, NvmlApi::Handle* handle) {
    fake.address = address;
    *handle = nullptr;
    return 0;
  };
  api->clock_info = [](NvmlApi::Handle, int clock, unsigned* mhz) {
    *mhz = clock == 1 ? fake.clock : 0;
    return fake.clock_code;
  };
  api->max_clock_info = [](NvmlApi::Handle, int clock, unsigned* mhz) {
    *mhz = clock == 1 ? 1980 : 0;
    return 0;
  };
  api->power_usage = [](NvmlApi::Handle, unsigned* milliwatts) {
    *milliwatts = fake.milliwatts;
    return 0;
  };
  api->enforced_power_limit = [](NvmlApi::Handle, unsigned*) { return 3; };
  api->temperature = [](NvmlApi::Handle, int, unsigned* celsius) {
    *celsius = 55;
    return 0;
  };
  api->driver_version = [](char* text, unsigned length) {
    std::strncpy(text, "580.95.05", length);
    return 0;
  };
  return api;
}

TEST_CASE("sensors are those of the CUDA device, by its PCI address") {
  FakeDriver driver;
  fake = {};
  const auto device = Device::open(driver.table(), 0);
  REQUIRE(device);
  const Result<GpuSensors> sensors = GpuSensors::open(table(), **device);
  REQUIRE(sensors);
  CHECK(fake.address == "0000:1B:00.0");
  const SensorReading reading = sensors->read();
  CHECK(reading.sm_clock_mhz == 1335);
  CHECK(reading.watts == 698.5);
  CHECK(reading.celsius == 55);
  CHECK(sensors->max_sm_clock_mhz() == 1980);
  CHECK(sensors->driver_version() == "580.95.05");
}

TEST_CASE("what a GPU does not tell is unknown, and not zero") {
  FakeDriver driver;
  fake = {};
  fake.clock_code = 3;
  const auto device = Device::open(driver.table(), 0);
  REQUIRE(device);
  const Result<GpuSensors> sensors = GpuSensors::open(table(), **device);
  REQUIRE(sensors);
  CHECK(!sensors->read().sm_clock_mhz);
  CHECK(sensors->read().watts);
  CHECK(!sensors->power_limit_watts());
}

TEST_CASE("without NVML there are no sensors, and a sentence says so") {
  const Result<Nvml> nvml = load_nvml("libno-such-nvml.so.1");
  REQUIRE(!nvml);
  CHECK(nvml.error().kind == ErrorKind::environment);
  CHECK(nvml.error().message.starts_with("clock and power are unknown: libno-such-nvml.so.1 cannot be opened"));
}

TEST_CASE("a library that is not NVML is refused") {
  const Result<Nvml> nvml = load_nvml("libc.so.6");
  REQUIRE(!nvml);
  CHECK(nvml.error().message == "clock and power are unknown: libc.so.6 is too old");
}

}  // namespace
}  // namespace epifuse::runtime
