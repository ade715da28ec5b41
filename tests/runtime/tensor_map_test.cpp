// Maps of sizes at the edge: nothing to read, offsets, strides the hardware cannot step.
#include "runtime/tensor_map.h"

#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::runtime;
using test::sample_arguments;
using test::tensor;

TEST_CASE("an axis without elements is encoded as one element, and a missing tensor as an address that is not read") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  for (const char* name : {"x", "y", "y.scale"}) {
    tensor(a, name).extents[0] = 0;
    tensor(a, name).pointer = 0;
  }
  REQUIRE(bind_call(machine.module, a));
  REQUIRE(machine.driver.maps.size() == 2);
  CHECK(machine.driver.maps[0].extents == std::vector<uint64_t>{64, 1});
  CHECK(machine.driver.maps[0].base != 0);
  CHECK(machine.driver.maps[0].base % 16 == 0);
}

TEST_CASE("the base of a map may be moved into the tensor") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  image.recipe.maps[0].byte_offset = IntExpr::symbol("K") * 2;
  REQUIRE(bind_call(*Module::load(machine.device, image), sample_arguments()));
  CHECK(machine.driver.maps[0].base == 0x10000 + 128);

  image.recipe.maps[0].byte_offset = 8;
  CHECK(bind_call(*Module::load(machine.device, image), sample_arguments()).error().message ==
        "kernel 'grouped': tensor 'x' cannot be read by TMA: its base 0x10008 is not a multiple of 16");
}

TEST_CASE("strides that TMA cannot step are refused by name") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  image.recipe.maps[0].strides[0] = IntExpr::symbol("K") * 2 + 8;
  CHECK(bind_call(*Module::load(machine.device, image), sample_arguments()).error().message ==
        "kernel 'grouped': tensor 'x' cannot be read by TMA: a stride of 136 bytes; it must be a multiple of 16 below "
        "2^40");
}

TEST_CASE("a map that reaches far past its tensor is encoded as the recipe says") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  constexpr int64_t far = int64_t{1} << 30;
  TensorMapRecipe& map = image.recipe.maps[0];
  const IntExpr pitch = IntExpr::symbol("x.stride0") * 2;
  map.extents = {IntExpr::symbol("K"), far, far + 1, far + 1};
  map.strides = {pitch, far * 16 - pitch, far * 16};
  map.box = {64, 64, 1, 1};
  map.element_strides = {1, 1, 1, 1};
  Arguments a = sample_arguments();
  tensor(a, "x").strides = {72, 1};
  REQUIRE(bind_call(*Module::load(machine.device, image), a));
  const test::FakeMap& encoded = machine.driver.maps.at(0);
  CHECK(encoded.extents == std::vector<uint64_t>{64, far, far + 1, far + 1});
  CHECK(encoded.strides == std::vector<uint64_t>{144, far * 16 - 144, far * 16});

  // The hardware's own limits stay.
  map.strides[2] = int64_t{1} << 40;
  CHECK(bind_call(*Module::load(machine.device, image), a).error().message.find("below 2^40") != std::string::npos);
}
