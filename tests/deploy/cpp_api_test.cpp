// The C++ interface of libepifuse_runtime: from a bundle to a launch, and failures as exceptions.
#include "deploy/c_objects.h"
#include "deploy/epifuse_runtime_cpp.h"
#include "tests/deploy/sample_bundle.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

bundled::Arguments cpp_arguments(const runtime::Arguments& from) {
  bundled::Arguments arguments;
  for (const runtime::TensorArgument& tensor : from.tensors)
    arguments.tensors.push_back({tensor.name, reinterpret_cast<void*>(tensor.pointer), tensor.extents, {}, ""});
  arguments.tensors[0].strides = {80, 1};
  arguments.tensors[0].storage = "bf16";
  arguments.params = {{"limit", 7.0}};
  arguments.workspace = reinterpret_cast<void*>(from.workspace.pointer);
  arguments.workspace_bytes = from.workspace.bytes;
  return arguments;
}

}  // namespace

TEST_CASE("from a bundle to a launch, in C++") {
  DeployMachine machine;
  const std::string bytes = bundle_of({deployed_entry()});
  runtime::Arguments of_sample = sample_arguments();
  const HostWorkspace workspace(of_sample);
  bundled::Arguments arguments = cpp_arguments(of_sample);
  {
    bundled::Runtime runtime(new epifuse_runtime(machine.load_driver()));
    runtime.add_bundle(bytes.data(), bytes.size(), "linked in");
    CHECK(runtime.list().find(R"("bundle":"linked in","kernel":"grouped")") != std::string::npos);
    CHECK(runtime.prepare() == 1);
    runtime.seal();
    const bundled::Kernel kernel = runtime.load({"grouped", {{"E", 4}, {"K", 64}, {"N", 96}}, {}, "", "", "", 0});
    CHECK(kernel.info().find(R"("registers")") != std::string::npos);
    CHECK(kernel.buffers().size() == 5);
    CHECK(std::string(kernel.buffers()[1].extents[2]) == "K");
    CHECK(kernel.workspace_bytes(arguments) == 4 * 256 + 320);
    bundled::Call call = kernel.bind(arguments);
    call.launch(nullptr, 128);
    REQUIRE(machine.driver.launches.size() == 2);
    CHECK(machine.driver.launches[0].grid == 4);
    CHECK(field<float>(machine.driver.launches[0], 300) == 7.0F);
    CHECK(machine.driver.maps[0].strides == std::vector<uint64_t>{160});
    std::vector<void*> pointers;
    for (bundled::Tensor& tensor : arguments.tensors) pointers.push_back(static_cast<char*>(tensor.pointer) + 0x100000);
    call.rebind(pointers, arguments.workspace);
    call.launch(nullptr);
    CHECK(field<uint64_t>(machine.driver.launches[2], 264) == 0x190000);
    call.synchronize(nullptr);
  }
  CHECK(machine.driver.open_handles == 0);
}

TEST_CASE("a failure in C++ has the status and the text that C has") {
  DeployMachine machine;
  const std::string bytes = bundle_of({deployed_entry()});
  bundled::Runtime runtime(new epifuse_runtime(machine.load_driver()));
  runtime.add_bundle(bytes.data(), bytes.size(), "linked in");
  try {
    runtime.load({"grouped", {{"E", 4}, {"K", 64}, {"N", 128}}, {}, "", "", "", 0});
    FAIL("it was found");
  } catch (const bundled::Error& error) {
    CHECK(error.status == EPIFUSE_RUNTIME_ERROR_MACHINE);
    CHECK(std::string(error.what()).find("what differs: the dim N") != std::string::npos);
  }
  CHECK_THROWS_AS(bundled::Runtime({std::string("/nonexistent.epb")}), bundled::Error);
  bundled::Query without;
  without.request = std::string(deployed_entry().request.view());
  without.device = EPIFUSE_RUNTIME_DEVICE_NONE;
  CHECK(runtime.load(without).buffers().size() == 5);
}
