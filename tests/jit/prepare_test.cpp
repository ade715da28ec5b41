// Engine::prepare and seal, and both through the C interface: what is loaded before a program may not wait any more,
// and what is said of what comes too late.
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <sys/wait.h>
#include <thread>

#include "cache/bundle_writer.h"
#include "jit/bundled_kernels.h"
#include "jit/c_objects.h"
#include "jit/tuning_file.h"
#include "tests/jit/support.h"
#include "tests/support/fake_driver.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::CompiledKernelPtr;
using jit::From;

namespace {

CompilerOptions with_k(int64_t k) {
  CompilerOptions options;
  options.dims["K"] = k;
  return options;
}

CompilerOptions without(const std::string& name) {
  CompilerOptions options;
  options.left_out = {name};
  return options;
}

// The content of every cubin that the fake toolchain makes.
const size_t cubin_bytes = ("cubin of " + digest("").hex()).size();

// The path of the file whose mapping holds this address, "" where it is no file's.
std::string mapped_file(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) != 2) continue;
    const auto at = reinterpret_cast<unsigned long>(address);
    if (at >= from && at < to) return line.find('/') == std::string::npos ? "" : line.substr(line.find('/'));
  }
  return "";
}

// A fake GPU that knows the entries of every kernel that it is shown.
class Machine {
 public:
  Machine() {
    state() = this;
    auto changed = std::make_shared<runtime::DriverApi>(*driver.table());
    changed->library_load_data = [](cuda::Library* library, const void* data, int* options, void** values,
                                    unsigned count, int* library_options, void** library_values,
                                    unsigned library_count) {
      Machine& machine = *state();
      machine.loaded_from.push_back(mapped_file(data));
      machine.driver.entries =
          machine.known_[std::string(static_cast<const char*>(data) + fake_cubin_content, cubin_bytes)];
      return machine.driver.table()->library_load_data(library, data, options, values, count, library_options,
                                                       library_values, library_count);
    };
    table = std::move(changed);
    device = open();
  }
  ~Machine() { state() = nullptr; }

  runtime::DevicePtr open(int ordinal = 0) {
    Result<runtime::DevicePtr> opened = runtime::Device::open(table, ordinal);
    REQUIRE(opened);
    return *std::move(opened);
  }
  void know(const CompiledKernelPtr& kernel) {
    for (const RecipeStep& step : kernel->image.recipe.steps)
      if (step.kind == RecipeStep::Kind::launch)
        known_[std::string(kernel->image.cubin.view().substr(fake_cubin_content, cubin_bytes))][step.entry] =
            step.parameter_bytes;
  }
  int loads() const { return driver.count("library_load_data"); }

  FakeDriver driver;                     // outlives the device
  std::vector<std::string> loaded_from;  // for each load the file whose mapping was read, or nothing
  runtime::Driver table;
  runtime::DevicePtr device;

 private:
  static Machine*& state() {
    static Machine* instance = nullptr;
    return instance;
  }

  std::map<std::string, std::map<std::string, size_t>> known_;  // by cubin
};

// A label and request of a GPU that is not there.
void for_another_gpu(cache::BundleEntry& entry) {
  std::string request(entry.request.view());
  const std::string target = "target sm_90a";
  const size_t at = request.find(target);
  REQUIRE(at != std::string::npos);
  entry.request = request.replace(at, target.size(), "target sm_100a");
  entry.label.target = "sm_100a";
}

// The small kernel with these dims, prebuilt on a machine of its own.
std::string bundle_of(Machine& machine, const std::vector<CompilerOptions>& kernels,
                      const std::function<void(cache::BundleEntry&)>& change = nullptr) {
  MemoryFileSystem disk;
  TestEngine builder(disk);
  std::vector<cache::BundleEntry> entries;
  for (const CompilerOptions& options : kernels) {
    const CompiledKernelPtr built = builder.compile(small_spec, options);
    machine.know(built);
    entries.push_back(jit::bundle_entry(*built, "fake 1.0"));
    if (change) change(entries.back());
  }
  Result<std::string> bytes = cache::encode_bundle(std::move(entries));
  REQUIRE(bytes);
  return *std::move(bytes);
}

std::function<void(jit::EngineOptions&)> with_bundles(std::vector<std::string> paths, bool jit = true) {
  return [paths, jit](jit::EngineOptions& options) {
    options.settings.bundles = paths;
    options.settings.jit = jit;
  };
}

Error compile_error(TestEngine& engine, const CompilerOptions& options) {
  Diagnostics diagnostics;
  const Program program = program_of(small_spec, diagnostics);
  const auto compiled = engine->compile(program, "", options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE_FALSE(compiled);
  return compiled.error();
}

}  // namespace

TEST_CASE("prepare loads what bundles and engine have, and after it nothing is loaded") {
  Machine machine;
  MemoryFileSystem disk;
  disk.put("/b.epb", bundle_of(machine, {with_k(64), with_k(128)}));
  TestEngine engine(disk, "/cache", with_bundles({"/b.epb"}));
  const CompiledKernelPtr compiled = engine.compile(small_spec, without("q"));
  CHECK(compiled->from == From::toolchain);
  machine.know(compiled);

  const Result<size_t> prepared = engine->prepare(machine.device);
  INFO((prepared ? std::string() : prepared.error().message));
  REQUIRE(prepared);
  CHECK(*prepared == 3);
  const int loads = machine.loads();
  CHECK(loads >= 2);  // kernels of one cubin and recipe are loaded once
  REQUIRE(engine->seal());

  for (const CompilerOptions& options : {with_k(64), with_k(128), without("q")}) {
    const CompiledKernelPtr found = engine.compile(small_spec, options);
    CHECK(found->from == (options.left_out.empty() ? From::bundle : From::memory));
    const auto loaded = engine->load(found, machine.device);
    INFO((loaded ? std::string() : loaded.error().message));
    REQUIRE(loaded);
    CHECK(loaded->module->recipe().to_json() == found->image.recipe.to_json());
  }
  CHECK(engine->prepare(machine.device).operator*() == 3);
  CHECK(machine.loads() == loads);
}

TEST_CASE("prepare takes what came from the cache, and a kernel of which nobody holds anything") {
  Machine machine;
  MemoryFileSystem disk;
  machine.know(TestEngine(disk).compile());
  TestEngine engine(disk);
  CHECK(engine.compile()->from == From::disk);
  CHECK(engine.compile()->from == From::memory);
  REQUIRE(engine->prepare(machine.device).operator*() == 1);
  CHECK(machine.loads() == 1);
  REQUIRE(engine->seal());
  CHECK(engine->load(engine.compile(), machine.device));
  CHECK(machine.loads() == 1);
}

TEST_CASE("the driver reads a bundle's cubins from the file, which is mapped and not copied") {
  Machine machine;
  const ScratchDirectory scratch;
  const std::string path = scratch / "b.epb";
  REQUIRE(real_file_system().write_atomically(path, bundle_of(machine, {with_k(64), with_k(128)})));
  TestEngine engine(real_file_system(), "", with_bundles({path}));
  REQUIRE(engine->prepare(machine.device));
  REQUIRE(!machine.loaded_from.empty());
  for (const std::string& file : machine.loaded_from) CHECK(file == path);
  // So it is with what is asked for before.
  TestEngine asks(real_file_system(), "", with_bundles({path}));
  machine.loaded_from.clear();
  REQUIRE(asks->load(asks.compile(), machine.device));
  CHECK(machine.loaded_from == std::vector<std::string>{path});
}

TEST_CASE("after seal a compile is an error that names the kernel, and nothing is compiled or written for it") {
  MemoryFileSystem disk;
  TestEngine(disk).compile(small_spec, without("q"));
  FaultyFileSystem counted(disk);
  TestEngine engine(counted);
  engine.compile();
  REQUIRE(engine->seal());
  const int writes = counted.counts.writes, locks = counted.counts.locks;
  const Error error = compile_error(engine, without("p"));
  CHECK(error.kind == ErrorKind::environment);
  INFO(error.message);
  CHECK(error.message.starts_with(
      "kernel 'small' for sm_90a would have to be compiled: everything was sealed, and nothing is loaded any more\n"));
  CHECK(contains(error.message, "epifuse prebuild small.epi --kernel small --dims E=2,K=64,N=64 --without p"));
  CHECK(engine->toolchain_calls() == 1);
  CHECK(counted.counts.writes == writes);
  CHECK(counted.counts.locks == locks);
  // What is in the cache is found, whether or not it may be loaded.
  CHECK(engine.compile()->from == From::memory);
  CHECK(engine.compile(small_spec, without("q"))->from == From::disk);
  CHECK(engine->toolchain_calls() == 1);
}

TEST_CASE("after seal a kernel that is not on the device is an error that names it, and the device") {
  Machine machine;
  machine.driver.device_count = 2;
  MemoryFileSystem disk;
  disk.put("/b.epb", bundle_of(machine, {with_k(64)}));
  TestEngine engine(disk, "/cache", with_bundles({"/b.epb"}));
  const CompiledKernelPtr other = engine.compile(small_spec, without("q"));
  const CompiledKernelPtr bundled = engine.compile();
  machine.know(other);
  REQUIRE(engine->load(bundled, machine.device));
  REQUIRE(engine->seal());
  const int loads = machine.loads();
  CHECK(engine->load(bundled, machine.device));
  const auto late = engine->load(other, machine.device);
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == ErrorKind::environment);
  CHECK(late.error().message ==
        "kernel 'small' for sm_90a with E=2,K=64,N=64, without q was not loaded onto GPU 0: everything was sealed, and "
        "nothing is loaded any more");
  const auto elsewhere = engine->load(bundled, machine.open(1));
  REQUIRE_FALSE(elsewhere);
  CHECK(contains(elsewhere.error().message, "was not loaded onto GPU 1: everything was sealed"));
  const auto prepared = engine->prepare(machine.open(1));
  REQUIRE_FALSE(prepared);
  CHECK(contains(prepared.error().message, "of the bundle /b.epb was not loaded onto GPU 1: everything was sealed"));
  CHECK(machine.loads() == loads);
  CHECK(engine->add_bundle("/b.epb").error().message ==
        "the bundle /b.epb is not added: everything was sealed, and nothing is loaded any more");
  CHECK(contains(engine->add_bundle(SharedBytes("hello"), "late").error().message, "the bundle late is not added"));
}

TEST_CASE("there is nothing to prepare") {
  Machine machine;
  MemoryFileSystem disk;
  TestEngine empty(disk);
  CHECK(empty->prepare(machine.device).error().message ==
        "there is nothing to prepare: no bundle has a kernel, and this engine has compiled none");
  CHECK(empty->prepare(machine.device).error().kind == ErrorKind::environment);
  disk.put("/b.epb", bundle_of(machine, {with_k(64)}, for_another_gpu));
  TestEngine other(disk, "/cache", with_bundles({"/b.epb", "/missing.epb"}));
  const Error error = other->prepare(machine.device).error();
  INFO(error.message);
  CHECK(
      error.message.starts_with("no bundle has a kernel for GPU 0 (Fake GPU, compute capability 9.0), which is "
                                "sm_90a; they have sm_100a, and this engine has compiled none\n"));
  CHECK(contains(error.message, "/missing.epb"));
  // With a kernel that it compiled there is.
  machine.know(other.compile());
  CHECK(other->prepare(machine.device).operator*() == 1);
}

TEST_CASE("a kernel that cannot be prepared is an error that names it and its bundle") {
  Machine machine;
  MemoryFileSystem disk;
  std::string bytes = bundle_of(machine, {with_k(64)});
  bytes[bytes.rfind("cubin of")] ^= 1;
  disk.put("/damaged.epb", bytes);
  const Error damaged = TestEngine(disk, "", with_bundles({"/damaged.epb"}))->prepare(machine.device).error();
  CHECK(damaged.kind == ErrorKind::wrong);
  CHECK(contains(damaged.message, "the bundle /damaged.epb is damaged"));

  disk.put("/info.epb", bundle_of(machine, {with_k(64)}, [](cache::BundleEntry& entry) { entry.info = "{}"; }));
  const Error info = TestEngine(disk, "", with_bundles({"/info.epb"}))->prepare(machine.device).error();
  CHECK(info.kind == ErrorKind::wrong);
  CHECK(contains(info.message, "kernel 'small' for sm_90a with E=2,K=64,N=64 of the bundle /info.epb cannot be read"));

  disk.put("/b.epb", bundle_of(machine, {with_k(64)}));
  machine.driver.fail["library_load_data"] = cuda::Code::out_of_memory;
  TestEngine engine(disk, "", with_bundles({"/b.epb"}));
  const Error full = engine->prepare(machine.device).error();
  CHECK(full.kind == ErrorKind::environment);
  CHECK(contains(full.message, "kernel 'small' for sm_90a with E=2,K=64,N=64 of the bundle /b.epb cannot be used: "));
  machine.driver.fail.clear();
  CHECK(engine->prepare(machine.device));
}

TEST_CASE("once sealed, the bundle's plan serves where the tuning file names one that was never compiled") {
  Machine machine;
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  const CompiledKernelPtr built = builder.compile();
  machine.know(built);
  REQUIRE(built->planned.lowered.plans.size() > 1);
  disk.put("/b.epb", *cache::encode_bundle({jit::bundle_entry(*built, "fake 1.0")}));
  jit::TunedPlan plan;
  plan.key = jit::tuning_key(built->planned.request);
  plan.schedule = lowering::schedule_name(built->planned.lowered.plans[1].schedule);
  plan.kernel = "small";
  plan.target = "sm_90a";
  disk.put("/tuning.json", jit::print_tuning_file({plan}));
  const auto tuned = [](jit::EngineOptions& options) {
    options.settings.bundles = {"/b.epb"};
    options.settings.tuning = "/tuning.json";
  };
  TestEngine engine(disk, "", tuned);
  REQUIRE(engine->prepare(machine.device));
  REQUIRE(engine->seal());
  const CompiledKernelPtr found = engine.compile();
  CHECK(found->from == From::bundle);
  CHECK(engine->load(found, machine.device));
  CHECK(engine->toolchain_calls() == 0);

  TestEngine compiled(disk, "", tuned);
  CHECK(compiled.compile()->schedule() == plan.schedule);
  REQUIRE(compiled->seal());
  CHECK(compiled.compile()->schedule() == plan.schedule);
}

TEST_CASE("threads that load while the engine is sealed are served or told, and nothing is loaded twice") {
  Machine machine;
  MemoryFileSystem disk;
  TestEngine engine(disk);
  const CompiledKernelPtr kernel = engine.compile();
  machine.know(kernel);
  std::vector<std::string> told(8);
  std::vector<std::thread> threads;
  for (std::string& one : told)
    threads.emplace_back([&] {
      if (const auto loaded = engine->load(kernel, machine.device); !loaded) one = loaded.error().message;
    });
  REQUIRE(engine->seal());
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : told) CHECK((one.empty() || contains(one, "everything was sealed")));
  CHECK(machine.loads() <= 1);
}

TEST_CASE("a child of a fork is told that engine is not its own") {
  Machine machine;
  MemoryFileSystem disk;
  TestEngine engine(disk);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool told = !engine->seal() && contains(engine->prepare(machine.device).error().message, "this Engine");
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

namespace {

// A sealed or unsealed C engine over a fake toolchain and the fake driver.
struct CEngine {
  CEngine(Machine& machine, MemoryFileSystem& disk, const std::vector<std::string>& bundles) {
    jit::EngineOptions options;
    options.settings.bundles = bundles;
    engine =
        new epifuse_engine{std::make_shared<jit::Engine>(std::move(options), std::make_shared<FakeToolchain>(), disk),
                           deploy::DeviceTable([&machine]() -> Result<runtime::Driver> { return machine.table; })};
  }
  ~CEngine() { epifuse_engine_destroy(engine); }

  // "" when the small kernel loads, else the error.
  std::string load(int32_t device = 0, const char* left_out = nullptr) {
    epifuse_kernel_options options{};
    options.size = sizeof options;
    options.spec_text = small_spec;
    options.left_out = &left_out;
    options.left_out_count = left_out ? 1 : 0;
    options.device = device;
    epifuse_kernel* kernel = nullptr;
    status = epifuse_kernel_load(engine, &options, &kernel);
    epifuse_kernel_destroy(kernel);
    return status == EPIFUSE_OK ? "" : epifuse_last_error();
  }

  epifuse_engine* engine = nullptr;
  epifuse_status status = EPIFUSE_OK;
};

}  // namespace

TEST_CASE("prepare and seal through the C interface") {
  Machine machine;
  machine.driver.device_count = 2;
  MemoryFileSystem disk;
  disk.put("/b.epb", bundle_of(machine, {with_k(64)}));
  CEngine engine(machine, disk, {"/b.epb"});
  size_t count = 0;
  REQUIRE(epifuse_engine_prepare(engine.engine, EPIFUSE_DEVICE_CURRENT, &count) == EPIFUSE_OK);
  CHECK(count == 1);
  CHECK(epifuse_engine_prepare(engine.engine, 0, nullptr) == EPIFUSE_OK);
  CHECK(machine.loads() == 1);
  REQUIRE(epifuse_engine_seal(engine.engine) == EPIFUSE_OK);
  CHECK(engine.load().empty());
  CHECK(engine.load(EPIFUSE_DEVICE_CURRENT).empty());
  CHECK(engine.load(EPIFUSE_DEVICE_NONE).empty());
  CHECK(contains(engine.load(0, "p"), "kernel 'small' for sm_90a would have to be compiled: everything was sealed"));
  CHECK(engine.status == EPIFUSE_ERROR_MACHINE);
  CHECK(engine.load(1) == "GPU 1 was not prepared: everything was sealed, and nothing is loaded any more");
  CHECK(engine.status == EPIFUSE_ERROR_MACHINE);
  CHECK(epifuse_engine_add_bundle(engine.engine, "/b.epb") == EPIFUSE_ERROR_MACHINE);
  CHECK(epifuse_engine_toolchain_calls(engine.engine) == 0);
  CHECK(machine.loads() == 1);

  CEngine empty(machine, disk, {});
  CHECK(epifuse_engine_prepare(empty.engine, 0, &count) == EPIFUSE_ERROR_MACHINE);
  CHECK(contains(epifuse_last_error(), "there is nothing to prepare"));
  CHECK(epifuse_engine_prepare(empty.engine, EPIFUSE_DEVICE_NONE, &count) == EPIFUSE_ERROR_USAGE);
  CHECK(epifuse_engine_prepare(nullptr, 0, &count) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(epifuse_last_error(), "epifuse_engine_prepare"));
  CHECK(epifuse_engine_seal(nullptr) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(epifuse_last_error(), "epifuse_engine_seal"));
}

TEST_CASE("trust and size of the cache are options of the C interface, before the environment") {
  const ScratchDirectory scratch;
  const std::string cache = scratch / "cache";
  const auto made = [&](const epifuse_engine_options& options) {
    epifuse_engine* engine = nullptr;
    REQUIRE(epifuse_engine_create(&options, &engine) == EPIFUSE_OK);
    const cache::CacheOptions found = engine->engine->cache().options();
    epifuse_engine_destroy(engine);
    return found;
  };
  const auto settings = read_settings();
  REQUIRE(settings);
  epifuse_engine_options options{};
  options.size = sizeof options;
  options.cache_directory = cache.c_str();
  CHECK(made(options).trust_shared == settings->trust_shared);
  CHECK(made(options).most_bytes == settings->cache_bytes);
  options.cache_trust = EPIFUSE_CACHE_TRUST_SHARED;
  options.cache_bytes = 123456789012;
  CHECK(made(options).trust_shared);
  CHECK(made(options).most_bytes == 123456789012);
  options.cache_trust = EPIFUSE_CACHE_TRUST_OWN;
  options.cache_bytes = EPIFUSE_CACHE_UNLIMITED;
  CHECK_FALSE(made(options).trust_shared);
  CHECK(made(options).most_bytes == 0);
  // A caller of before them: what stands behind its struct is not read.
  options.size = offsetof(epifuse_engine_options, cache_bytes);
  options.cache_bytes = 7;
  options.cache_trust = 9;
  CHECK(made(options).most_bytes == settings->cache_bytes);

  options.size = sizeof options;
  epifuse_engine* none = nullptr;
  CHECK(epifuse_engine_create(&options, &none) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(epifuse_last_error(), "cache_trust is 9"));
  options.cache_trust = EPIFUSE_CACHE_TRUST_DEFAULT;
  options.cache_bytes = -2;
  CHECK(epifuse_engine_create(&options, &none) == EPIFUSE_ERROR_USAGE);
  CHECK(contains(epifuse_last_error(), "cache_bytes is -2"));
  CHECK(none == nullptr);
}
