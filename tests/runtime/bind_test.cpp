// Binding: what is refused, what ends up in the parameter structs and maps.
#include "runtime/bind.h"

#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::runtime;
using test::field;
using test::sample_arguments;
using test::tensor;

TEST_CASE("the parameter struct holds what the recipe says, field by field") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  REQUIRE(call->launch(nullptr));
  REQUIRE(machine.driver.launches.size() == 2);
  const auto& gemm = machine.driver.launches[0];
  CHECK(gemm.entry == "gemm_entry");
  CHECK(field<uint64_t>(gemm, 0) == 1);  // the fake writes the number of the map
  CHECK(field<uint64_t>(gemm, 128) == 2);
  CHECK(field<uint64_t>(gemm, 256) == 0x80000);
  CHECK(field<uint64_t>(gemm, 264) == 0x90000);
  CHECK(field<uint64_t>(gemm, 272) == a.workspace.pointer + 256);
  CHECK(field<int64_t>(gemm, 280) == 300);
  CHECK(field<int32_t>(gemm, 288) == 64);
  CHECK(field<int32_t>(gemm, 292) == 132);
  CHECK(field<float>(gemm, 296) == 1.5F);
  CHECK(field<float>(gemm, 300) == 7.0F);
  CHECK(field<uint64_t>(gemm, 304) == 0);
  const auto& finish = machine.driver.launches[1];
  CHECK(finish.entry == "finish_entry");
  CHECK(field<uint64_t>(finish, 0) == 0xa0000);
  CHECK(field<int32_t>(finish, 8) == 300);
}

TEST_CASE("maps get extents, byte strides, boxes and element strides as the recipe says") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  tensor(a, "x").strides = {72, 1};
  REQUIRE(bind_call(machine.module, a));
  REQUIRE(machine.driver.maps.size() == 2);
  const auto& x = machine.driver.maps[0];
  CHECK(x.type == cuda::TensorMapDataType::bfloat16);
  CHECK(x.base == 0x10000);
  CHECK(x.extents == std::vector<uint64_t>{64, 300});
  CHECK(x.strides == std::vector<uint64_t>{144});
  CHECK(x.box == std::vector<uint32_t>{64, 128});
  CHECK(x.swizzle == cuda::TensorMapSwizzle::b128);
  CHECK(machine.driver.maps[1].extents == std::vector<uint64_t>{64, 96, 4});
  CHECK(machine.driver.maps[1].strides == std::vector<uint64_t>{128, 96 * 128});
}

TEST_CASE("params: defaults, overrides, missing and unknown ones") {
  test::SampleMachine machine;
  CHECK(machine.complaint([](Arguments& a) { a.params = {}; }) == "param 'limit' of kernel 'grouped' is not given");
  CHECK(machine.complaint([](Arguments& a) {
    a.params.push_back({"beta", 1});
  }) == "kernel 'grouped' has no param 'beta'");
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  a.params.push_back({"alpha", 0.1});
  const auto call = bind_call(machine.module, a);
  REQUIRE(call);
  REQUIRE(call->launch(nullptr));
  CHECK(field<float>(machine.driver.launches[0], 296) == 0.1F);
}

TEST_CASE("pointers are checked: null, alignment, device, and memory nobody knows") {
  test::SampleMachine machine;
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "w").pointer = 0; }) == "tensor 'w' has a null pointer");
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "w").pointer = 0x20008; }) ==
        "tensor 'w' is at 0x20008, wanted an address that is a multiple of 16");
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "M.ends").pointer = 0x80004; }).empty());
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "w").pointer = ~uint64_t{0xff}; })
            .find("past the end of memory") != std::string::npos);
  machine.driver.other_device[0x20000] = 3;
  CHECK(machine.complaint([](Arguments&) {}) == "tensor 'w' is in memory of GPU 3, wanted GPU 0");
  machine.driver.other_device[0x20000] = -1;
  CHECK(machine.complaint([](Arguments&) {}) == "tensor 'w' at 0x20000 is not in memory that CUDA knows");
}

TEST_CASE("the workspace is asked for up front and checked") {
  test::SampleMachine machine;
  const auto bytes = workspace_bytes(*machine.module, sample_arguments());
  REQUIRE(bytes);
  CHECK(*bytes == 4 * 256 + 320);
  CHECK(machine.complaint([](Arguments& a) { a.workspace.bytes -= 1; }) ==
        "the workspace of kernel 'grouped' has 1343 bytes, wanted 1344");
  CHECK(machine.complaint([](Arguments& a) { a.workspace.pointer += 128; }) ==
        "the workspace is at 0xb0080, wanted an address that is a multiple of 256");
  CHECK(machine.complaint([](Arguments& a) { a.workspace.pointer = 0; }) == "the workspace has a null pointer");
}

TEST_CASE("what is written must not overlap anything; what is only read may") {
  test::SampleMachine machine;
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "y").pointer = 0x10000 + 300 * 128 - 16; }) ==
        "tensor 'x' (0x10000 to 0x19600) and tensor 'y' (0x195f0 to 0x20670) overlap, and one of them is written");
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "y").pointer = tensor(a, "y.scale").pointer; }) != "");
  CHECK(machine.complaint([](Arguments& a) { a.workspace.pointer = 0x90000; }).find("the workspace") !=
        std::string::npos);
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "w").pointer = 0x10000; }).empty());
  // Side by side is not overlap.
  CHECK(machine.complaint([](Arguments& a) { tensor(a, "y.scale").pointer = 0x90000 + 300 * 96; }).empty());
}

TEST_CASE("integers that do not fit their field, and impossible grids, are refused") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  image.recipe.steps[1].fields[6].value = IntExpr::symbol("K") * (int64_t{1} << 40);
  auto module = *Module::load(machine.device, image);
  CHECK(bind_call(module, sample_arguments()).error().message ==
        "kernel 'grouped': the value 70368744177664 of 'k' does not fit in 32 bits");
  image = test::sample_image();
  image.recipe.steps[2].grid = IntExpr::symbol("M") * (int64_t{1} << 24);
  module = *Module::load(machine.device, image);
  CHECK(bind_call(module, sample_arguments()).error().message.find("more than a GPU can launch") != std::string::npos);
}

TEST_CASE("an encoding that the driver refuses names the tensor and its numbers") {
  test::SampleMachine machine;
  machine.driver.fail["tensor_map_encode_tiled"] = cuda::Code::invalid_value;
  const auto call = bind_call(machine.module, sample_arguments());
  REQUIRE_FALSE(call);
  CHECK(call.error().kind == ErrorKind::environment);
  const std::string message = call.error().message;
  INFO(message);
  CHECK(message.find("tensor 'x': encoding a TMA map (base 0x10000, extents 64x300, strides 128, box 64x128, element "
                     "strides 1,1)") != std::string::npos);
}

namespace {

// The sample kernel with w as E buffers of [N, K], of any pitch, and w's map over one of them.
KernelImage pointer_image() {
  auto image = test::sample_image();
  const IntExpr k = IntExpr::symbol("K"), n = IntExpr::symbol("N");
  image.recipe.tensors[1].pointer_axes = 1;
  image.recipe.tensors[1].strided = true;
  image.recipe.maps[1] = {"w",    TensorMapType::bf16, k * 2, {k, n}, {IntExpr::symbol("w.stride1") * 2}, {64, 128},
                          {1, 1}, Swizzle::b128};
  image.recipe.steps[1].fields[10].tensor = "w";  // of "bias"
  return image;
}

}  // namespace

TEST_CASE("a tensor of pointers is bound by the address of their array") {
  test::SampleMachine machine;
  const auto module = *Module::load(machine.device, pointer_image());
  const auto bind = [&](const std::function<void(Arguments&)>& change) {
    Arguments a = sample_arguments();
    tensor(a, "w").pointer = 0x20008;  // aligned to a pointer, not to what the buffers are aligned to
    change(a);
    machine.driver.maps.clear();
    return bind_call(module, a);
  };
  const auto complaint = [&](const std::function<void(Arguments&)>& change) {
    const auto call = bind(change);
    return call ? "" : call.error().message;
  };
  Arguments launched = sample_arguments();
  test::HostWorkspace workspace(launched);
  const auto call = bind([&](Arguments& a) { a.workspace = launched.workspace; });
  REQUIRE(call);
  REQUIRE(call->launch(nullptr));
  CHECK(field<uint64_t>(machine.driver.launches[0], 304) == 0x20008);
  // The map is a template: of one buffer, at an address that is no one's.
  CHECK(machine.driver.maps[1].extents == std::vector<uint64_t>{64, 96});
  CHECK(machine.driver.maps[1].strides == std::vector<uint64_t>{128});
  CHECK(machine.driver.maps[1].base % 16 == 0);
  CHECK(machine.driver.maps[1].base < 0x10000);

  // Strides of the buffers are launch values; the one of the pointers means nothing.
  REQUIRE(bind([](Arguments& a) { tensor(a, "w").strides = {-7, 80, 1}; }));
  CHECK(machine.driver.maps[1].strides == std::vector<uint64_t>{160});
  CHECK(complaint([](Arguments& a) {
          tensor(a, "w").strides = {0, 68, 1};
        }) == "tensor 'w': the stride of axis 1 is 68 elements (136 bytes), wanted a multiple of 16 bytes");

  // Only the array is compared with other memory: 4 pointers.
  CHECK(complaint([](Arguments& a) { tensor(a, "y").pointer = 0x20020 + 16; }).empty());
  CHECK(complaint([](Arguments& a) { tensor(a, "y").pointer = 0x20020; }) ==
        "the array of pointers of tensor 'w' (0x20008 to 0x20028) and tensor 'y' (0x20020 to 0x270a0) overlap, and one "
        "of them is written");
  CHECK(complaint([](Arguments& a) { tensor(a, "w").pointer = 0x20004; }) ==
        "the array of pointers of tensor 'w' is at 0x20004, wanted an address that is a multiple of 8");
  CHECK(complaint([](Arguments& a) { tensor(a, "w").pointer = 0; }) ==
        "the array of pointers of tensor 'w' has a null pointer");
  CHECK(complaint([](Arguments& a) { tensor(a, "w").extents = {4}; }) == "tensor 'w' has shape [4], wanted [E][N, K]");
  CHECK(complaint([](Arguments& a) { tensor(a, "w").extents[0] = 5; }) ==
        "tensor 'w' has shape [5, 96, 64], wanted [E][N, K]: axis 0 is 5, wanted 4 (E = 4)");
}

TEST_CASE("an output of pointers has its array read, not written") {
  test::SampleMachine machine;
  auto image = test::sample_image();
  image.recipe.tensors[3].pointer_axes = 1;
  const auto module = *Module::load(machine.device, image);
  Arguments a = sample_arguments();
  tensor(a, "y").pointer = tensor(a, "x").pointer;
  CHECK(bind_call(module, a));
  tensor(a, "y").pointer = tensor(a, "y.scale").pointer;
  CHECK_FALSE(bind_call(module, a));
}

TEST_CASE("what points into the workspace points inside it") {
  test::SampleMachine machine;
  const auto complaint = [&](const IntExpr& address, const IntExpr& memset) {
    auto image = test::sample_image();
    image.recipe.steps[1].fields[4].value = address;
    image.recipe.steps[0].workspace_offset = memset;
    Arguments a = sample_arguments();
    a.workspace.bytes += 4096;  // more than is asked for is nobody's
    const auto call = bind_call(*Module::load(machine.device, image), a);
    return call ? "" : call.error().message;
  };
  const IntExpr e = IntExpr::symbol("E");
  CHECK(complaint(e * 256 + 320, e * 256 + 256).empty());
  CHECK(complaint(e * 256 + 321, 0) == "kernel 'grouped': 'counter' would be 1345 bytes into the workspace of 1344");
  CHECK(complaint(e - 5, 0) == "kernel 'grouped': 'counter' would be -1 bytes into the workspace of 1344");
  CHECK(complaint(0, e * 256 + 257) == "kernel 'grouped': a memset of 64 bytes at 1281 leaves the workspace of 1344");
}
