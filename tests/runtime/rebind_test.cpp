// Other addresses for a bound call: what is rewritten, what is refused, and that a refusal changes nothing.
#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::runtime;
using test::field;
using test::sample_arguments;
using test::tensor;

namespace {

std::vector<cuda::DevicePointer> addresses_of(const test::SampleMachine& machine, Arguments& a) {
  std::vector<cuda::DevicePointer> addresses;
  for (const RecipeTensor& wanted : machine.module->recipe().tensors)
    addresses.push_back(tensor(a, wanted.name).pointer);
  return addresses;
}

// What a call launches: parameters and grids, and the maps that the driver made for it.
struct Launched {
  std::vector<test::FakeLaunch> launches;
  std::vector<uint64_t> map_bases;
};

Launched launch(test::SampleMachine& machine, const BoundCall& call) {
  machine.driver.launches.clear();
  REQUIRE(call.launch(nullptr));
  Launched launched{machine.driver.launches, {}};
  for (const size_t at : {0U, 128U})
    launched.map_bases.push_back(machine.driver.maps.at(field<uint64_t>(launched.launches[0], at) - 1).base);
  return launched;
}

// The parameters behind the maps, which a fake map fills with its number.
std::vector<std::byte> plain_parameters(const test::FakeLaunch& launch) {
  const size_t maps = launch.entry == "gemm_entry" ? 256 : 0;
  return {launch.parameters.begin() + static_cast<std::ptrdiff_t>(maps), launch.parameters.end()};
}

void check_same(const Launched& a, const Launched& b) {
  REQUIRE(a.launches.size() == b.launches.size());
  for (size_t i = 0; i < a.launches.size(); ++i) {
    CHECK(plain_parameters(a.launches[i]) == plain_parameters(b.launches[i]));
    CHECK(a.launches[i].grid == b.launches[i].grid);
  }
  CHECK(a.map_bases == b.map_bases);
}

Arguments moved_arguments() {
  Arguments a = sample_arguments();
  for (TensorArgument& t : a.tensors) t.pointer += 0x1000000;
  return a;
}

}  // namespace

TEST_CASE("a call that is rebound launches what a call bound to those buffers launches") {
  test::SampleMachine machine;
  Arguments first = sample_arguments(), second = moved_arguments();
  test::HostWorkspace first_workspace(first), second_workspace(second);
  auto call = bind_call(machine.module, first);
  const auto wanted = bind_call(machine.module, second);
  REQUIRE(call);
  REQUIRE(wanted);
  const Launched before = launch(machine, *call);
  REQUIRE(call->rebind(addresses_of(machine, second), second.workspace.pointer));
  std::fill(std::begin(second_workspace.bytes), std::end(second_workspace.bytes), 0xff);
  check_same(launch(machine, *call), launch(machine, *wanted));
  CHECK(second_workspace.bytes[256] == 0);  // the memset went with the workspace
  REQUIRE(call->rebind(addresses_of(machine, first), first.workspace.pointer));
  check_same(launch(machine, *call), before);
}

TEST_CASE("a rebind asks the driver for nothing but maps of buffers that moved") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.forget();
  std::vector<cuda::DevicePointer> addresses = addresses_of(machine, a);
  REQUIRE(call->rebind(addresses, a.workspace.pointer));
  CHECK(machine.driver.calls.empty());
}

TEST_CASE("only the map of a buffer that moved is changed") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  machine.driver.calls.clear();
  std::vector<cuda::DevicePointer> addresses = addresses_of(machine, a);
  addresses[1] += 0x1000000;  // w
  addresses[3] += 0x1000000;  // y, which has no map
  REQUIRE(call->rebind(addresses, a.workspace.pointer));
  CHECK(machine.driver.calls == std::vector<std::string>{"ctx_get_current", "tensor_map_replace_address"});
  const Launched launched = launch(machine, *call);
  CHECK(launched.map_bases == std::vector<uint64_t>{0x10000, 0x1020000});
  CHECK(field<uint64_t>(launched.launches[0], 264) == 0x1090000);
}

TEST_CASE("what the host can see of new addresses is checked, and a refusal changes nothing") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  const Launched before = launch(machine, *call);
  const std::vector<cuda::DevicePointer> good = addresses_of(machine, a);
  const auto complaint = [&](size_t index, cuda::DevicePointer address) {
    std::vector<cuda::DevicePointer> addresses = good;
    addresses[index] = address;
    const Status done = call->rebind(addresses, a.workspace.pointer);
    REQUIRE_FALSE(done);
    CHECK(done.error().kind == ErrorKind::user);
    return done.error().message;
  };
  CHECK(complaint(1, 0) == "tensor 'w' has a null pointer");
  CHECK(complaint(1, 0x20008) == "tensor 'w' is at 0x20008, wanted an address that is a multiple of 16");
  CHECK(complaint(1, ~uint64_t{0xff}).find("past the end of memory") != std::string::npos);
  CHECK(complaint(3, 0x10000 + 300 * 128 - 16) ==
        "tensor 'x' (0x10000 to 0x19600) and tensor 'y' (0x195f0 to 0x20670) overlap, and one of them is written");
  CHECK(call->rebind(good, a.workspace.pointer + 128).error().message.find("the workspace is at") == 0);
  CHECK(call->rebind(std::span(good).first(4), a.workspace.pointer).error().message ==
        "kernel 'grouped' has 5 buffers, and 4 addresses are given");
  check_same(launch(machine, *call), before);
}

TEST_CASE("a map that the driver does not move leaves the call as it was") {
  test::SampleMachine machine;
  Arguments a = sample_arguments(), moved = moved_arguments();
  test::HostWorkspace workspace(a);
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  const Launched before = launch(machine, *call);
  machine.driver.fail["tensor_map_replace_address"] = cuda::Code::invalid_value;
  const Status done = call->rebind(addresses_of(machine, moved), a.workspace.pointer);
  REQUIRE_FALSE(done);
  CHECK(done.error().kind == ErrorKind::environment);
  CHECK(done.error().message.find("moving tensor 'x' to 0x1010000") == 0);
  machine.driver.fail.clear();
  check_same(launch(machine, *call), before);
}

TEST_CASE("a buffer without elements may be anywhere, before and after") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  for (const char* name : {"x", "y", "y.scale"}) {
    tensor(a, name).extents[0] = 0;
    tensor(a, name).pointer = 0;
  }
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  std::vector<cuda::DevicePointer> addresses = addresses_of(machine, a);
  addresses[0] = 0x7;  // x: its map stays where nothing is read
  machine.driver.calls.clear();
  REQUIRE(call->rebind(addresses, a.workspace.pointer));
  CHECK(machine.driver.calls.empty());
}

TEST_CASE("group sizes are read where a rebind put them") {
  test::SampleMachine machine;
  Arguments a = sample_arguments();
  test::HostWorkspace workspace(a);
  alignas(16) int32_t sound[] = {10, 20, 30, 300}, broken[] = {10, 20, 15, 300};
  tensor(a, "M.ends").pointer = reinterpret_cast<uint64_t>(sound);
  auto call = bind_call(machine.module, a);
  REQUIRE(call);
  CHECK(call->check_group_sizes(nullptr));
  tensor(a, "M.ends").pointer = reinterpret_cast<uint64_t>(broken);
  REQUIRE(call->rebind(addresses_of(machine, a), a.workspace.pointer));
  CHECK_FALSE(call->check_group_sizes(nullptr));
}
