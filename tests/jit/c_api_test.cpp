// The C interface through the shared library, opened as a program would open it that was built without us.
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "jit/epifuse.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

using epifuse::test::ScratchDirectory;

namespace {

struct Library {
  void* handle = dlopen(EPIFUSE_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  template <class F>
  F* get(const char* name) {
    auto* function = reinterpret_cast<F*>(dlsym(handle, name));
    REQUIRE(function);
    return function;
  }
};

Library& library() {
  static Library instance;
  REQUIRE(instance.handle);
  return instance;
}

#define CALL(name) (library().get<decltype(name)>(#name))

std::string last_error() { return CALL(epifuse_last_error)(); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr auto spec = R"(
kernel small {
  dim   E = 2, K = 64, N = 64
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  out y : mxfp8[M, N] = gemm(x, w)
}
)";

struct Engine {
  explicit Engine(const std::string& cache) {
    epifuse_engine_options options = {sizeof options, cache.c_str(), nullptr, nullptr};
    REQUIRE(CALL(epifuse_engine_create)(&options, &handle) == EPIFUSE_OK);
  }
  ~Engine() { CALL(epifuse_engine_destroy)(handle); }
  epifuse_engine* handle = nullptr;
};

epifuse_kernel_options kernel_options(const char* text = spec) {
  epifuse_kernel_options options{};
  options.size = sizeof options;
  options.spec_text = text;
  options.device = EPIFUSE_DEVICE_NONE;
  return options;
}

}  // namespace

TEST_CASE("the version is the project's") { CHECK(std::string(CALL(epifuse_version)()) == EPIFUSE_VERSION); }

TEST_CASE("null pointers and structs without a size are usage errors, in words") {
  const ScratchDirectory scratch;
  Engine engine(scratch / "cache");
  epifuse_kernel* kernel = nullptr;
  CHECK(CALL(epifuse_engine_create)(nullptr, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(last_error(), "epifuse_engine_create"));
  CHECK(CALL(epifuse_kernel_load)(engine.handle, nullptr, &kernel) == EPIFUSE_ERROR_USAGE);
  epifuse_kernel_options options = kernel_options();
  CHECK(CALL(epifuse_kernel_load)(nullptr, &options, &kernel) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, nullptr) == EPIFUSE_ERROR_USAGE);
  options.size = 0;
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(last_error(), "size"));
  options = kernel_options(nullptr);
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(last_error(), "spec_path"));
  CHECK(CALL(epifuse_launch)(nullptr, nullptr, 0) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_launch_with)(nullptr, nullptr, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_rebind)(nullptr, nullptr, 0, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_synchronize)(nullptr, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_check_group_sizes)(nullptr, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(kernel == nullptr);
  CALL(epifuse_engine_destroy)(nullptr);
  CALL(epifuse_kernel_destroy)(nullptr);
  CALL(epifuse_call_destroy)(nullptr);
}

TEST_CASE("mistakes in a spec come with their place") {
  const ScratchDirectory scratch;
  Engine engine(scratch / "cache");
  epifuse_kernel* kernel = nullptr;
  epifuse_kernel_options options = kernel_options("kernel k {\n  dim N = 8\n  out y : bf16[N] = nothing\n}\n");
  options.spec_path = "mine.epi";
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USER);
  CHECK(contains(last_error(), "mine.epi:3:"));
  CHECK(contains(last_error(), "nothing"));

  options = kernel_options(nullptr);
  options.spec_path = "/nowhere/at/all.epi";
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USER);
  CHECK(contains(last_error(), "/nowhere/at/all.epi"));

  options = kernel_options();
  options.target = "sm_12";
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USER);
  CHECK(contains(last_error(), "sm_12"));

  options = kernel_options();
  const epifuse_dim dims[] = {{"Q", 5}};
  options.dims = dims;
  options.dim_count = 1;
  CHECK(CALL(epifuse_kernel_load)(engine.handle, &options, &kernel) == EPIFUSE_ERROR_USER);
  CHECK(contains(last_error(), "Q"));
}

TEST_CASE("an unfused kernel has the buffers of the fused one", "[nvrtc]") {
  const ScratchDirectory scratch;
  Engine engine(scratch / "cache");
  epifuse_kernel_options options = kernel_options();
  epifuse_kernel *fused = nullptr, *unfused = nullptr;
  if (CALL(epifuse_kernel_load)(engine.handle, &options, &fused) == EPIFUSE_ERROR_MACHINE) {
    WARN("skipped: " << last_error());
    return;
  }
  options.unfused = 1;
  INFO(last_error());
  REQUIRE(CALL(epifuse_kernel_load)(engine.handle, &options, &unfused) == EPIFUSE_OK);
  const auto info = nlohmann::json::parse(CALL(epifuse_kernel_info)(unfused));
  CHECK(info.at("unfused") == true);
  CHECK(info.at("workspace_bytes").is_null());
  // The product and its quantisation.
  CHECK(info.at("stages").size() == 2);
  CHECK(info.at("toolchain_calls") == 2);
  REQUIRE(CALL(epifuse_kernel_buffer_count)(unfused) == CALL(epifuse_kernel_buffer_count)(fused));
  for (size_t i = 0; i < CALL(epifuse_kernel_buffer_count)(fused); ++i) {
    epifuse_buffer_info one{}, other{};
    one.size = other.size = sizeof one;
    REQUIRE(CALL(epifuse_kernel_buffer)(fused, i, &one) == EPIFUSE_OK);
    REQUIRE(CALL(epifuse_kernel_buffer)(unfused, i, &other) == EPIFUSE_OK);
    CHECK(std::string(one.name) == other.name);
    CHECK(std::string(one.storage) == other.storage);
    CHECK(one.rank == other.rank);
  }
  // A caller that was built before the option was there asks for none of it.
  options.size = offsetof(epifuse_kernel_options, unfused);
  epifuse_kernel* older = nullptr;
  REQUIRE(CALL(epifuse_kernel_load)(engine.handle, &options, &older) == EPIFUSE_OK);
  CHECK_FALSE(nlohmann::json::parse(CALL(epifuse_kernel_info)(older)).contains("unfused"));
  for (epifuse_kernel* kernel : {fused, unfused, older}) CALL(epifuse_kernel_destroy)(kernel);
}

TEST_CASE("an error is its thread's own") {
  CHECK(CALL(epifuse_launch)(nullptr, nullptr, 0) == EPIFUSE_ERROR_USAGE);
  std::string other = "not run";
  std::thread([&] { other = last_error(); }).join();
  CHECK(other.empty());
  CHECK(contains(last_error(), "epifuse_launch"));
}

TEST_CASE("without a driver or a compiler, the machine is to blame") {
  const ScratchDirectory scratch;
  Engine engine(scratch / "cache");
  epifuse_kernel* kernel = nullptr;
  epifuse_kernel_options options = kernel_options();
  options.device = 9999;
  const epifuse_status status = CALL(epifuse_kernel_load)(engine.handle, &options, &kernel);
  // With a driver there is no such ordinal; without one there is none at all.
  CHECK((status == EPIFUSE_ERROR_MACHINE || status == EPIFUSE_ERROR_USER));
  CHECK((contains(last_error(), "driver") || contains(last_error(), "GPU")));
}

TEST_CASE("a kernel is compiled, described, and found by the next engine", "[nvrtc]") {
  const ScratchDirectory scratch;
  for (const bool warm : {false, true}) {
    Engine engine(scratch / "cache");
    epifuse_kernel_options options = kernel_options();
    const epifuse_dim dims[] = {{"E", 4}};
    options.dims = dims;
    options.dim_count = 1;
    epifuse_kernel* kernel = nullptr;
    const epifuse_status status = CALL(epifuse_kernel_load)(engine.handle, &options, &kernel);
    if (status == EPIFUSE_ERROR_MACHINE && contains(last_error(), "cannot be compiled")) {
      WARN("SKIP: " << last_error());
      return;
    }
    INFO((status == EPIFUSE_OK ? std::string() : last_error()));
    REQUIRE(status == EPIFUSE_OK);
    const auto info = nlohmann::json::parse(CALL(epifuse_kernel_info)(kernel));
    CHECK(info.at("kernel") == "small");
    CHECK(info.at("target") == "sm_90a");
    CHECK(info.at("dims") == nlohmann::json{{"E", 4}, {"K", 64}, {"N", 64}});
    CHECK(info.at("from") == (warm ? "disk" : "toolchain"));
    CHECK(info.at("compiled") == !warm);
    CHECK((info.at("toolchain_calls") == 0) == warm);
    CHECK((CALL(epifuse_engine_toolchain_calls)(engine.handle) == 0) == warm);
    CHECK(info.at("registers") > 0);
    CHECK(info.at("workspace_bytes") == 0);

    CHECK(CALL(epifuse_kernel_buffer_count)(kernel) == 5);
    std::set<std::string> shapes;  // in any order
    for (size_t i = 0; i < 5; ++i) {
      epifuse_buffer_info buffer{};
      buffer.size = sizeof buffer;
      REQUIRE(CALL(epifuse_kernel_buffer)(kernel, i, &buffer) == EPIFUSE_OK);
      std::string shape = std::string(buffer.role) + " " + buffer.name + " " + buffer.storage;
      for (int32_t axis = 0; axis < buffer.rank; ++axis) shape += std::string(" ") + buffer.extents[axis];
      shapes.insert(shape);
      CHECK(buffer.alignment >= 1);
      CHECK(buffer.pointer_axes == 0);
    }
    CHECK(shapes == std::set<std::string>{"group_sizes M.ends i32 E", "input x bf16 M K", "input w bf16 E N K",
                                          "output y e4m3 M N", "output y.scale e8m0 M ceil_div(N, 32)"});
    epifuse_buffer_info old{};
    old.size = 2 * sizeof(void*);  // a caller that knows the name only
    REQUIRE(CALL(epifuse_kernel_buffer)(kernel, 0, &old) == EPIFUSE_OK);
    CHECK(old.name != nullptr);
    CHECK(old.storage == nullptr);
    CHECK(old.pointer_axes == 0);
    CHECK(CALL(epifuse_kernel_buffer)(kernel, 5, &old) == EPIFUSE_ERROR_USAGE);

    epifuse_arguments arguments{};
    arguments.size = sizeof arguments;
    epifuse_call* call = nullptr;
    CHECK(CALL(epifuse_bind)(kernel, &arguments, &call) == EPIFUSE_ERROR_USAGE);
    CHECK(contains(last_error(), "onto no GPU"));
    CALL(epifuse_kernel_destroy)(kernel);
  }
}
