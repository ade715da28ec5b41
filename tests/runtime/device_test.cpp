// Opening the driver and devices, and the words for what is missing.
#include "runtime/device.h"

#include "runtime/device_buffer.h"
#include "tests/support/catch.h"
#include "tests/support/fake_driver.h"

using namespace epifuse;
using namespace epifuse::runtime;

TEST_CASE("no driver is an error of the machine, in plain words") {
  const auto driver = load_driver("libcuda_that_is_not_there.so.1");
  REQUIRE_FALSE(driver);
  CHECK(driver.error().kind == ErrorKind::environment);
  CHECK(driver.error().message.find(
            "no NVIDIA driver on this machine: libcuda_that_is_not_there.so.1 cannot be opened") == 0);
}

TEST_CASE("a library that is no driver, or an old one, names what it lacks") {
  const auto driver = load_driver("libm.so.6");
  REQUIRE_FALSE(driver);
  CHECK(driver.error().kind == ErrorKind::environment);
  CHECK(driver.error().message.find("too old") != std::string::npos);
  CHECK(driver.error().message.find("cuGetErrorName") != std::string::npos);
}

TEST_CASE("devices are described as the driver does") {
  test::FakeDriver fake;
  fake.device_count = 2;
  const auto list = list_devices(*fake.table());
  REQUIRE(list);
  REQUIRE(list->size() == 2);
  CHECK((*list)[1].ordinal == 1);
  CHECK((*list)[1].name == "Fake GPU");
  CHECK((*list)[1].sm_count == 132);
  CHECK((*list)[1].memory_bytes == size_t{1} << 34);
  const auto target = target_of((*list)[0]);
  REQUIRE(target);
  CHECK(target->name == "sm_90a");
  CHECK(*driver_version(*fake.table()) == 13000);

  DeviceInfo slice = (*list)[0];
  slice.shared_bytes_per_block = 100000;
  CHECK(target_of(slice)->shared_bytes_per_block == 100000);
  slice.major = 7;
  CHECK(target_of(slice).error().kind == ErrorKind::environment);
}

TEST_CASE("a device that is not there is named with those that are") {
  test::FakeDriver fake;
  CHECK(Device::open(fake.table(), 1).error().message == "there is no GPU 1; this machine has 1 (0 to 0)");
  CHECK(Device::open(fake.table(), -1).error().kind == ErrorKind::user);
  fake.device_count = 0;
  CHECK(Device::open(fake.table(), 0).error().kind == ErrorKind::environment);
  fake.device_count = 1;
  fake.fail["device_primary_ctx_retain"] = cuda::Code::out_of_memory;
  CHECK(Device::open(fake.table(), 0).error().message.find("starting GPU 0 (Fake GPU): the GPU is out of memory") == 0);
}

TEST_CASE("the primary context is retained as long as the device lives") {
  test::FakeDriver fake;
  {
    const auto device = Device::open(fake.table(), 0);
    REQUIRE(device);
    CHECK(fake.open_handles == 1);
  }
  CHECK(fake.open_handles == 0);
}

TEST_CASE("the current device is that of the thread's context, else the first") {
  test::FakeDriver fake;
  fake.device_count = 3;
  CHECK(*current_device(*fake.table()) == 0);
  fake.current = test::FakeDriver::primary_context(2);
  CHECK(*current_device(*fake.table()) == 2);
}

TEST_CASE("buffers copy, fill, and say how much memory there was") {
  test::FakeDriver fake;
  const auto device = *Device::open(fake.table(), 0);
  {
    auto buffer = DeviceBuffer::allocate(device, 8);
    REQUIRE(buffer);
    REQUIRE(buffer->fill(0xab, nullptr));
    const std::byte sent[] = {std::byte{1}, std::byte{2}};
    REQUIRE(buffer->upload(sent, nullptr, 6));
    std::byte got[4];
    REQUIRE(buffer->download(got, nullptr, 4));
    CHECK(got[1] == std::byte{0xab});
    CHECK(got[2] == std::byte{1});
    CHECK(got[3] == std::byte{2});
    CHECK_THROWS(buffer->upload(sent, nullptr, 7));
    DeviceBuffer moved = std::move(*buffer);
    CHECK(moved.bytes() == 8);
    CHECK(fake.open_handles == 2);
  }
  CHECK(fake.open_handles == 1);
  auto empty = DeviceBuffer::allocate(device, 0);
  REQUIRE(empty);
  CHECK(empty->pointer() == 0);
  CHECK(empty->fill(1, nullptr));
  fake.fail["mem_alloc"] = cuda::Code::out_of_memory;
  CHECK(DeviceBuffer::allocate(device, 4096)
            .error()
            .message.find("allocating 4096 bytes on GPU 0 (1000 of 2000 are free): the GPU is out of memory") == 0);
}
