// Bundles through the C interface: from a file, from memory, and what is said when a kernel is in none. The bundle is
// made here, with a toolchain that compiles nothing.
#include <cstring>
#include <dlfcn.h>

#include "cache/bundle_writer.h"
#include "jit/bundled_kernels.h"
#include "jit/epifuse.h"
#include "tests/jit/support.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

template <class F>
F* function(const char* name) {
  static void* const handle = dlopen(EPIFUSE_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle);
  auto* found = reinterpret_cast<F*>(dlsym(handle, name));
  REQUIRE(found);
  return found;
}
#define CALL(name) (function<decltype(name)>(#name))

std::string small_bundle() {
  MemoryFileSystem disk;
  TestEngine builder(disk);
  Result<std::string> bytes = cache::encode_bundle({jit::bundle_entry(*builder.compile(), "fake 1.0")});
  REQUIRE(bytes);
  return *std::move(bytes);
}

// An engine without a cache and without a compiler.
struct Engine {
  explicit Engine(std::vector<const char*> bundles = {}, int32_t jit = EPIFUSE_JIT_OFF) {
    epifuse_engine_options options{};
    options.size = sizeof options;
    options.cache_directory = "";
    options.log = [](int32_t, const char*, void*) {};
    options.bundles = bundles.data();
    options.bundle_count = bundles.size();
    options.jit = jit;
    REQUIRE(CALL(epifuse_engine_create)(&options, &handle) == EPIFUSE_OK);
  }
  ~Engine() { CALL(epifuse_engine_destroy)(handle); }

  // The info of the small kernel with K, or the error.
  std::string load(int64_t k = 64) {
    const epifuse_dim dim = {"K", k};
    epifuse_kernel_options options{};
    options.size = sizeof options;
    options.spec_text = small_spec;
    options.device = EPIFUSE_DEVICE_NONE;
    options.dims = &dim;
    options.dim_count = 1;
    epifuse_kernel* kernel = nullptr;
    status = CALL(epifuse_kernel_load)(handle, &options, &kernel);
    if (status != EPIFUSE_OK) return CALL(epifuse_last_error)();
    std::string info = CALL(epifuse_kernel_info)(kernel);
    CALL(epifuse_kernel_destroy)(kernel);
    return info;
  }

  epifuse_engine* handle = nullptr;
  epifuse_status status = EPIFUSE_OK;
};

}  // namespace

TEST_CASE("a kernel is loaded from a bundle: of the options, added, or in memory") {
  const std::string bytes = small_bundle();
  const ScratchDirectory folder;
  const std::string path = folder / "b.epb";
  REQUIRE(real_file_system().write_atomically(path, bytes));
  Engine of_options({path.c_str()});
  CHECK(contains(of_options.load(), R"("compiled":false,"from":"bundle","toolchain_calls":0)"));
  Engine added;
  CHECK(contains(added.load(), "there is no bundle"));
  REQUIRE(CALL(epifuse_engine_add_bundle)(added.handle, path.c_str()) == EPIFUSE_OK);
  CHECK(contains(added.load(), R"("from":"bundle")"));
  Engine in_memory;
  REQUIRE(CALL(epifuse_engine_add_bundle_memory)(in_memory.handle, bytes.data(), bytes.size(), "linked") == EPIFUSE_OK);
  CHECK(contains(in_memory.load(), R"("from":"bundle")"));
  CHECK(contains(in_memory.load(128), "nearest: linked has kernel 'small'"));
  CHECK(in_memory.status == EPIFUSE_ERROR_MACHINE);
}

TEST_CASE("a bundle that cannot be used is an error at once, by its kind") {
  const std::string bytes = small_bundle();
  Engine engine;
  const auto add = [&](const std::string& given) {
    return CALL(epifuse_engine_add_bundle_memory)(engine.handle, given.data(), given.size(), nullptr);
  };
  CHECK(add("hello") == EPIFUSE_ERROR_WRONG);
  CHECK(contains(CALL(epifuse_last_error)(), "in memory is no bundle"));
  CHECK(add(bytes.substr(0, 500)) == EPIFUSE_ERROR_WRONG);
  CHECK(CALL(epifuse_engine_add_bundle)(engine.handle, "/nonexistent.epb") == EPIFUSE_ERROR_USER);
  CHECK(CALL(epifuse_engine_add_bundle)(engine.handle, nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(CALL(epifuse_engine_add_bundle_memory)(engine.handle, nullptr, 1, "x") == EPIFUSE_ERROR_USAGE);
  epifuse_engine_options options{};
  options.size = sizeof options;
  options.bundle_count = 1;
  epifuse_engine* none = nullptr;
  CHECK(CALL(epifuse_engine_create)(&options, &none) == EPIFUSE_ERROR_USAGE);
  options.bundle_count = 0;
  options.jit = 3;
  CHECK(CALL(epifuse_engine_create)(&options, &none) == EPIFUSE_ERROR_USAGE);
  CHECK(none == nullptr);
}

TEST_CASE("the options of an older caller, without bundles, are still options") {
  epifuse_engine_options options{};
  options.size = offsetof(epifuse_engine_options, bundles);
  options.cache_directory = "";
  epifuse_engine* engine = nullptr;
  REQUIRE(CALL(epifuse_engine_create)(&options, &engine) == EPIFUSE_OK);
  CALL(epifuse_engine_destroy)(engine);
}
