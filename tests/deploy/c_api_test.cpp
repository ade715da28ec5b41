// The C interface of libepifuse_runtime over a fake driver: what a program in C sees, and every misuse.
#include <nlohmann/json.hpp>

#include "deploy/c_objects.h"
#include "tests/deploy/sample_bundle.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;
using Json = nlohmann::json;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool says(std::string_view part) { return contains(epifuse_runtime_last_error(), part); }

template <class T>
T sized() {
  T value{};
  value.size = sizeof value;
  return value;
}

struct Kernel {
  explicit Kernel(epifuse_runtime& runtime, int64_t n = 96, int32_t device = 0) {
    const epifuse_runtime_dim dims[] = {{"N", n}, {"K", 64}, {"E", 4}};
    auto options = sized<epifuse_runtime_kernel_options>();
    options.kernel = "grouped";
    options.dims = dims;
    options.dim_count = 3;
    options.device = device;
    status = epifuse_runtime_kernel_load(&runtime, &options, &handle);
  }
  ~Kernel() { epifuse_runtime_kernel_destroy(handle); }

  epifuse_runtime_kernel* handle = nullptr;
  epifuse_runtime_status status = EPIFUSE_RUNTIME_OK;
};

// The sample call's arguments as C has them.
struct CArguments {
  CArguments() : ours(sample_arguments()), workspace(ours) {
    for (const runtime::TensorArgument& tensor : ours.tensors) {
      auto given = sized<epifuse_runtime_tensor>();
      given.name = tensor.name.c_str();
      given.pointer = reinterpret_cast<void*>(tensor.pointer);
      given.rank = static_cast<int32_t>(tensor.extents.size());
      given.extents = tensor.extents.data();
      tensors.push_back(given);
    }
    all = sized<epifuse_runtime_arguments>();
    all.tensors = tensors.data();
    all.tensor_count = tensors.size();
    all.params = &limit;
    all.param_count = 1;
    all.workspace = reinterpret_cast<void*>(ours.workspace.pointer);
    all.workspace_bytes = ours.workspace.bytes;
  }

  runtime::Arguments ours;
  HostWorkspace workspace;
  epifuse_runtime_param limit = {"limit", 7.0};
  std::vector<epifuse_runtime_tensor> tensors;
  epifuse_runtime_arguments all;
};

struct CMachine : DeployMachine {
  CMachine() : bytes(bundle_of({deployed_entry(), deployed_entry(192)})), runtime(load_driver()) {
    REQUIRE(epifuse_runtime_add_bundle_memory(&runtime, bytes.data(), bytes.size(), "linked in") == EPIFUSE_RUNTIME_OK);
  }

  std::string bytes;
  epifuse_runtime runtime;
};

}  // namespace

TEST_CASE("from a bundle in memory to a launch, in C") {
  CMachine machine;
  size_t count = 0;
  REQUIRE(epifuse_runtime_prepare(&machine.runtime, 0, &count) == EPIFUSE_RUNTIME_OK);
  CHECK(count == 2);
  REQUIRE(epifuse_runtime_seal(&machine.runtime) == EPIFUSE_RUNTIME_OK);
  const Kernel kernel(machine.runtime);
  REQUIRE(kernel.status == EPIFUSE_RUNTIME_OK);
  const CArguments arguments;
  int64_t bytes = 0;
  REQUIRE(epifuse_runtime_workspace_bytes(kernel.handle, &arguments.all, &bytes) == EPIFUSE_RUNTIME_OK);
  CHECK(bytes == 4 * 256 + 320);
  epifuse_runtime_call* call = nullptr;
  REQUIRE(epifuse_runtime_bind(kernel.handle, &arguments.all, &call) == EPIFUSE_RUNTIME_OK);
  auto* const stream = reinterpret_cast<void*>(0x50007);
  REQUIRE(epifuse_runtime_launch(call, stream, 0) == EPIFUSE_RUNTIME_OK);
  REQUIRE(machine.driver.launches.size() == 2);
  const FakeLaunch first = machine.driver.launches[0];
  CHECK(first.entry == "gemm_entry");
  CHECK(first.grid == 7);
  CHECK(first.stream == stream);
  CHECK(field<uint64_t>(first, 264) == 0x90000);  // y
  CHECK(field<int64_t>(first, 280) == 300);       // rows
  CHECK(field<float>(first, 300) == 7.0F);        // limit

  auto options = sized<epifuse_runtime_launch_options>();
  options.sm_margin = 128;
  REQUIRE(epifuse_runtime_launch_with(call, stream, &options) == EPIFUSE_RUNTIME_OK);
  CHECK(machine.driver.launches[2].grid == 4);
  options.sm_margin = 132;
  CHECK(epifuse_runtime_launch_with(call, stream, &options) == EPIFUSE_RUNTIME_ERROR_USER);

  std::vector<void*> pointers;
  for (const runtime::TensorArgument& tensor : arguments.ours.tensors)
    pointers.push_back(reinterpret_cast<void*>(tensor.pointer + 0x100000));
  REQUIRE(epifuse_runtime_rebind(call, pointers.data(), pointers.size(), arguments.all.workspace) ==
          EPIFUSE_RUNTIME_OK);
  REQUIRE(epifuse_runtime_launch(call, stream, 0) == EPIFUSE_RUNTIME_OK);
  CHECK(field<uint64_t>(machine.driver.launches[4], 264) == 0x190000);
  CHECK(epifuse_runtime_rebind(call, pointers.data(), 2, nullptr) == EPIFUSE_RUNTIME_ERROR_USER);
  CHECK(epifuse_runtime_synchronize(call, stream) == EPIFUSE_RUNTIME_OK);
  epifuse_runtime_call_destroy(call);
}

TEST_CASE("group sizes on the device are checked when asked for") {
  CMachine machine;
  const Kernel kernel(machine.runtime);
  CArguments arguments;
  alignas(16) int32_t ends[4] = {10, 20, 300, 300};
  arguments.tensors[2].pointer = ends;
  epifuse_runtime_call* call = nullptr;
  REQUIRE(epifuse_runtime_bind(kernel.handle, &arguments.all, &call) == EPIFUSE_RUNTIME_OK);
  CHECK(epifuse_runtime_check_group_sizes(call, nullptr) == EPIFUSE_RUNTIME_OK);
  ends[3] = 301;
  CHECK(epifuse_runtime_check_group_sizes(call, nullptr) != EPIFUSE_RUNTIME_OK);
  CHECK(says("past the capacity of 300 rows"));
  epifuse_runtime_call_destroy(call);
}

TEST_CASE("what names no kernel is said to be that, and is no command that cannot work") {
  CMachine machine;
  const auto complaint = [&](std::vector<epifuse_runtime_dim> dims, const char* target, const char* request,
                             const char* kernel, std::vector<const char*> left_out) {
    auto options = sized<epifuse_runtime_kernel_options>();
    options.kernel = kernel;
    options.dims = dims.data();
    options.dim_count = dims.size();
    options.left_out = left_out.data();
    options.left_out_count = left_out.size();
    options.target = target;
    options.request = request;
    options.device = EPIFUSE_RUNTIME_DEVICE_NONE;
    epifuse_runtime_kernel* made = nullptr;
    const epifuse_runtime_status status = epifuse_runtime_kernel_load(&machine.runtime, &options, &made);
    REQUIRE(status != EPIFUSE_RUNTIME_OK);
    return fmt::format("{}: {}", status, epifuse_runtime_last_error());
  };
  const std::vector<epifuse_runtime_dim> all = {{"E", 4}, {"K", 64}, {"N", 128}};
  CHECK(contains(complaint(all, nullptr, nullptr, "grouped", {}),
                 "to build it: epifuse prebuild SPEC --kernel grouped --dims E=4,K=64,N=128 --target sm_90a"));
  std::string text = complaint({{"E", 4}, {"N", 96}}, nullptr, nullptr, "grouped", {});
  CHECK(contains(text, "3: "));
  CHECK(contains(text, "name a number for every dim of the kernel: K too"));
  CHECK_FALSE(contains(text, "prebuild"));
  text = complaint({{"E", 4}, {"K", 64}, {"N", 96}, {"Q", 1}}, nullptr, nullptr, "grouped", {});
  CHECK(contains(text, "name the kernel's own dims: it has no Q"));
  CHECK_FALSE(contains(text, "prebuild"));
  text = complaint(all, "sm_100a", nullptr, "grouped", {});
  CHECK(contains(text, "it cannot be built: target 'sm_100a' is not supported"));
  CHECK_FALSE(contains(text, "prebuild"));
  for (const char* request : {"garbage", "request 1\n", "kernel a\ntarget sm_90a\n"})
    CHECK(contains(complaint({}, nullptr, request, nullptr, {}), "1: what is given for a request is none"));
  CHECK(contains(complaint({{"K", 64}, {"K", 128}}, nullptr, nullptr, "grouped", {}),
                 "2: epifuse_runtime_kernel_load: the dim 'K' is given as 64 and as 128"));
  CHECK(contains(complaint(all, nullptr, nullptr, "grouped", {nullptr}), "2: "));
  CHECK(contains(complaint(all, nullptr, nullptr, "", {}), "2: "));
}

TEST_CASE("what a bundle has, and what a kernel takes, without a GPU") {
  CMachine machine;
  const char* list = nullptr;
  REQUIRE(epifuse_runtime_list(&machine.runtime, &list) == EPIFUSE_RUNTIME_OK);
  const Json kernels = Json::parse(list);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[1] == Json({{"bundle", "linked in"},
                            {"kernel", "grouped"},
                            {"target", "sm_90a"},
                            {"dims", {{"E", 4}, {"K", 64}, {"N", 96}}},
                            {"without", Json::array()},
                            {"schedule", nullptr},
                            {"request", digest(deployed_entry().request).hex()}}));
  const char* again = nullptr;
  REQUIRE(epifuse_runtime_list(&machine.runtime, &again) == EPIFUSE_RUNTIME_OK);
  CHECK(again == list);

  const Kernel kernel(machine.runtime, 192, EPIFUSE_RUNTIME_DEVICE_NONE);
  REQUIRE(kernel.status == EPIFUSE_RUNTIME_OK);
  const Json info = Json::parse(epifuse_runtime_kernel_info(kernel.handle));
  CHECK(info["bundle"] == "linked in");
  CHECK(info["dims"]["N"] == 192);
  CHECK(info["workspace_bytes"] == 4 * 256 + 320);
  CHECK(info["made"]["plan"] == "pingpong 128x192");
  CHECK(info["schedule"].is_null());
  REQUIRE(epifuse_runtime_kernel_buffer_count(kernel.handle) == 5);
  auto buffer = sized<epifuse_runtime_buffer_info>();
  REQUIRE(epifuse_runtime_kernel_buffer(kernel.handle, 4, &buffer) == EPIFUSE_RUNTIME_OK);
  CHECK(std::string(buffer.name) == "y.scale");
  CHECK(std::string(buffer.storage) == "e8m0");
  CHECK(std::string(buffer.role) == "output");
  REQUIRE(buffer.rank == 2);
  CHECK(std::string(buffer.extents[0]) == "M");
  CHECK(contains(buffer.extents[1], "N"));
  CHECK(buffer.alignment == 16);
  REQUIRE(epifuse_runtime_kernel_buffer(kernel.handle, 2, &buffer) == EPIFUSE_RUNTIME_OK);
  CHECK(std::string(buffer.role) == "group_sizes");
  // A caller that knows fewer fields gets those.
  epifuse_runtime_buffer_info old{};
  old.size = offsetof(epifuse_runtime_buffer_info, role);
  REQUIRE(epifuse_runtime_kernel_buffer(kernel.handle, 0, &old) == EPIFUSE_RUNTIME_OK);
  CHECK(std::string(old.name) == "x");
  CHECK(old.role == nullptr);
  CHECK(machine.driver.calls.empty());

  const CArguments arguments;
  epifuse_runtime_call* call = nullptr;
  CHECK(epifuse_runtime_bind(kernel.handle, &arguments.all, &call) == EPIFUSE_RUNTIME_ERROR_USAGE);
  CHECK(says("the kernel was loaded onto no GPU"));
}

TEST_CASE("failures have codes and texts") {
  CMachine machine;
  const Kernel missing(machine.runtime, 128);
  CHECK(missing.status == EPIFUSE_RUNTIME_ERROR_MACHINE);
  CHECK(says("nearest: linked in has kernel 'grouped' for sm_90a with E=4,K=64,N="));
  CHECK(epifuse_runtime_add_bundle_memory(&machine.runtime, "hello", 5, nullptr) == EPIFUSE_RUNTIME_ERROR_WRONG);
  CHECK(says("in memory is no bundle"));
  CHECK(epifuse_runtime_add_bundle(&machine.runtime, "/nonexistent.epb") == EPIFUSE_RUNTIME_ERROR_USER);
  const Kernel kernel(machine.runtime);
  CArguments arguments;
  arguments.tensors[3].storage = "e5m2";
  epifuse_runtime_call* call = nullptr;
  CHECK(epifuse_runtime_bind(kernel.handle, &arguments.all, &call) == EPIFUSE_RUNTIME_ERROR_USER);
  CHECK(says("'y'"));
  auto request = sized<epifuse_runtime_kernel_options>();
  const std::string text(deployed_entry(192).request.view());
  request.request = text.c_str();
  epifuse_runtime_kernel* found = nullptr;
  CHECK(epifuse_runtime_kernel_load(&machine.runtime, &request, &found) == EPIFUSE_RUNTIME_OK);
  epifuse_runtime_kernel_destroy(found);
}

TEST_CASE("a bundle in a file") {
  const ScratchDirectory folder;
  const std::string path = folder / "kernels.epb";
  REQUIRE(real_file_system().write_atomically(path, bundle_of({deployed_entry()})));
  epifuse_runtime* runtime = nullptr;
  const char* const paths[] = {path.c_str(), "/nonexistent.epb"};
  epifuse_runtime_options options = {sizeof options, paths, 2};
  CHECK(epifuse_runtime_create(&options, &runtime) == EPIFUSE_RUNTIME_ERROR_USER);
  CHECK(says("/nonexistent.epb"));
  CHECK(runtime == nullptr);
  options.bundle_count = 1;
  REQUIRE(epifuse_runtime_create(&options, &runtime) == EPIFUSE_RUNTIME_OK);
  REQUIRE(epifuse_runtime_add_bundle(runtime, path.c_str()) == EPIFUSE_RUNTIME_OK);
  {
    const Kernel kernel(*runtime, 96, EPIFUSE_RUNTIME_DEVICE_NONE);
    REQUIRE(kernel.status == EPIFUSE_RUNTIME_OK);
    CHECK(Json::parse(epifuse_runtime_kernel_info(kernel.handle))["bundle"] == path);
  }
  epifuse_runtime_destroy(runtime);
}

TEST_CASE("misuse is an error, never a crash") {
  CMachine machine;
  const Kernel kernel(machine.runtime);
  const CArguments good;
  epifuse_runtime_call* call = nullptr;
  REQUIRE(epifuse_runtime_bind(kernel.handle, &good.all, &call) == EPIFUSE_RUNTIME_OK);
  auto options = sized<epifuse_runtime_kernel_options>();
  epifuse_runtime_kernel* none = nullptr;
  const char* list = nullptr;
  int64_t bytes = 0;
  const auto misused = [](epifuse_runtime_status status) { return status == EPIFUSE_RUNTIME_ERROR_USAGE; };
  epifuse_runtime* uncreated = nullptr;
  epifuse_runtime_options runtime_options = {0, nullptr, 1};
  CHECK(misused(epifuse_runtime_create(nullptr, nullptr)));
  CHECK(misused(epifuse_runtime_create(&runtime_options, &uncreated)));
  runtime_options.size = sizeof runtime_options;
  CHECK(misused(epifuse_runtime_create(&runtime_options, &uncreated)));
  CHECK(uncreated == nullptr);
  CHECK(misused(epifuse_runtime_add_bundle(&machine.runtime, nullptr)));
  CHECK(misused(epifuse_runtime_add_bundle(nullptr, "b")));
  CHECK(misused(epifuse_runtime_add_bundle_memory(&machine.runtime, nullptr, 1, "b")));
  CHECK(misused(epifuse_runtime_list(nullptr, &list)));
  CHECK(misused(epifuse_runtime_prepare(nullptr, 0, nullptr)));
  CHECK(misused(epifuse_runtime_seal(nullptr)));
  CHECK(misused(epifuse_runtime_kernel_load(&machine.runtime, &options, &none)));
  CHECK(says("neither kernel nor request"));
  options.kernel = "grouped";
  options.dim_count = 1;
  CHECK(misused(epifuse_runtime_kernel_load(&machine.runtime, &options, &none)));
  const epifuse_runtime_dim nameless = {nullptr, 3};
  options.dims = &nameless;
  CHECK(misused(epifuse_runtime_kernel_load(&machine.runtime, &options, &none)));
  options.size = 0;
  CHECK(misused(epifuse_runtime_kernel_load(&machine.runtime, &options, &none)));
  CHECK(misused(epifuse_runtime_kernel_load(&machine.runtime, nullptr, &none)));
  CHECK(misused(epifuse_runtime_kernel_buffer(kernel.handle, 0, nullptr)));
  auto buffer = sized<epifuse_runtime_buffer_info>();
  CHECK(misused(epifuse_runtime_kernel_buffer(kernel.handle, 5, &buffer)));
  CHECK(misused(epifuse_runtime_workspace_bytes(kernel.handle, nullptr, &bytes)));
  CHECK(misused(epifuse_runtime_bind(nullptr, &good.all, &call)));
  CArguments bad;
  bad.tensors[0].name = nullptr;
  epifuse_runtime_call* unbound = nullptr;
  CHECK(misused(epifuse_runtime_bind(kernel.handle, &bad.all, &unbound)));
  CHECK(says("tensor 0 has no name"));
  CHECK(misused(epifuse_runtime_rebind(call, nullptr, 5, nullptr)));
  CHECK(misused(epifuse_runtime_launch(nullptr, nullptr, 0)));
  CHECK(misused(epifuse_runtime_launch_with(nullptr, nullptr, nullptr)));
  epifuse_runtime_launch_options empty{};
  CHECK(misused(epifuse_runtime_launch_with(call, nullptr, &empty)));
  CHECK(misused(epifuse_runtime_synchronize(nullptr, nullptr)));
  CHECK(misused(epifuse_runtime_check_group_sizes(nullptr, nullptr)));
  CHECK(epifuse_runtime_kernel_buffer_count(nullptr) == 0);
  CHECK(std::string(epifuse_runtime_kernel_info(nullptr)).empty());
  CHECK(unbound == nullptr);
  CHECK(none == nullptr);
  epifuse_runtime_call_destroy(call);
  epifuse_runtime_call_destroy(nullptr);
  epifuse_runtime_kernel_destroy(nullptr);
  epifuse_runtime_destroy(nullptr);
}
