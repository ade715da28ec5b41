// Kernels of bundles on a GPU that is a fake: found, loaded once, launched as the runtime alone launches them; what is
// said of what is missing, damaged or sealed.
#include "deploy/kernel_library.h"

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/version.h"
#include "cache/bundle_format.h"
#include "tests/deploy/sample_bundle.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;
using deploy::KernelLibrary;
using deploy::KernelPtr;
using deploy::KernelQuery;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct LibraryMachine : DeployMachine {
  explicit LibraryMachine(std::vector<std::string> bundles) : library(load_driver()) {
    for (size_t i = 0; i < bundles.size(); ++i)
      REQUIRE(library.add_bundle(SharedBytes(std::move(bundles[i])), fmt::format("b{}.epb", i)));
  }

  // The error's text, or "" when it is found.
  std::string complaint(const KernelQuery& query, int device = 0) {
    const Result<KernelPtr> found = library.find(query, device);
    if (!found) kind = found.error().kind;
    return found ? "" : found.error().message;
  }

  KernelLibrary library;
  ErrorKind kind = ErrorKind::user;
};

KernelQuery by_label(int64_t n = 96) { return {"", {"grouped", "", {{"E", 4}, {"K", 64}, {"N", n}}, {}, ""}}; }
KernelQuery by_request(const cache::BundleEntry& entry) { return {std::string(entry.request.view()), {}}; }

// A bundle of a later version, whose other bytes mean what nobody here knows.
std::string of_version(std::string bytes, uint32_t version) {
  std::string number;
  cache::bundle::append(number, version);
  bytes.replace(8, 4, number);
  bytes.resize(bytes.size() - cache::bundle::digest_bytes);
  cache::bundle::append(bytes, digest(bytes));
  return bytes;
}

}  // namespace

TEST_CASE("a kernel of a bundle launches with the bytes that the runtime gives it alone") {
  runtime::Arguments arguments = sample_arguments();
  const HostWorkspace workspace(arguments);
  std::vector<FakeLaunch> wanted;
  std::vector<FakeMap> wanted_maps;
  {
    SampleMachine alone;
    alone.driver.forget();
    const auto call = runtime::bind_call(alone.module, arguments);
    REQUIRE(call);
    REQUIRE(call->launch(nullptr, {4, true}));
    wanted = alone.driver.launches;
    wanted_maps = alone.driver.maps;
  }
  REQUIRE(wanted.size() == 2);

  LibraryMachine machine({bundle_of({deployed_entry()})});
  const Result<KernelPtr> kernel = machine.library.find(by_label(), 0);
  REQUIRE(kernel);
  machine.driver.forget();
  arguments.dims = (*kernel)->dims();
  CHECK(runtime::workspace_bytes(*(*kernel)->module, arguments).operator*() == 4 * 256 + 320);
  const auto call = runtime::bind_call((*kernel)->module, arguments);
  REQUIRE(call);
  REQUIRE(call->launch(nullptr, {4, true}));
  REQUIRE(machine.driver.launches.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK(machine.driver.launches[i].entry == wanted[i].entry);
    CHECK(machine.driver.launches[i].grid == wanted[i].grid);
    CHECK(machine.driver.launches[i].shared_bytes == wanted[i].shared_bytes);
    CHECK(machine.driver.launches[i].overlaps == wanted[i].overlaps);
    CHECK(machine.driver.launches[i].parameters == wanted[i].parameters);
  }
  REQUIRE(machine.driver.maps.size() == wanted_maps.size());
  for (size_t i = 0; i < wanted_maps.size(); ++i) {
    CHECK(machine.driver.maps[i].base == wanted_maps[i].base);
    CHECK(machine.driver.maps[i].extents == wanted_maps[i].extents);
    CHECK(machine.driver.maps[i].strides == wanted_maps[i].strides);
  }
}

TEST_CASE("a kernel is found by its label or its request, in the first bundle that has it") {
  cache::BundleEntry plain = deployed_entry(), without = deployed_entry(96, {"pre"}), second = plain;
  second.info = R"({"key":"k2","plan":"p"})";
  LibraryMachine machine({bundle_of({plain, without}), bundle_of({second, deployed_entry(192)})});
  CHECK((*machine.library.find(by_label(), 0))->bundle == "b0.epb");
  CHECK((*machine.library.find(by_request(second), 0))->bundle == "b0.epb");
  CHECK((*machine.library.find(by_label(192), 0))->bundle == "b1.epb");
  KernelQuery query = by_label();
  query.label.left_out = {"pre"};
  CHECK((*machine.library.find(query, 0))->label == without.label);
  query.label.target = "sm_90a";
  CHECK((*machine.library.find(query, 0)) == (*machine.library.find(by_request(without), 0)));

  const auto listed = machine.library.list();
  REQUIRE(listed);
  REQUIRE(listed->size() == 4);
  CHECK((*listed)[0].label == plain.label);
  CHECK((*listed)[1].label == without.label);
  CHECK((*listed)[2].bundle == "b1.epb");
  CHECK((*listed)[3].label == plain.label);
}

TEST_CASE("kernels that differ in their text alone are told apart by their requests") {
  cache::BundleEntry other = deployed_entry();
  other.request = std::string(other.request.view()) + "  %1 = const 3\n";
  LibraryMachine machine({bundle_of({deployed_entry(), other})});
  CHECK(machine.complaint(by_label()) ==
        "the bundle b0.epb has 2 kernels that differ only in their text as kernel 'grouped' for sm_90a with "
        "E=4,K=64,N=96: find it by its request");
  CHECK(machine.kind == ErrorKind::user);
  CHECK(machine.complaint(by_request(other)).empty());
}

TEST_CASE("a miss where there is no bundle") {
  LibraryMachine empty({});
  CHECK(contains(empty.complaint(by_label()), "is not there: there is no bundle"));
  CHECK(empty.library.prepare(0).error().message == "there is nothing to prepare: no bundle has a kernel");
}

TEST_CASE("a miss says what the bundles have, what differs and what builds it") {
  LibraryMachine machine({bundle_of({deployed_entry(), deployed_entry(192, {"pre"})})});
  CHECK(machine.complaint(by_label(128)) ==
        "kernel 'grouped' for sm_90a with E=4,K=64,N=128 is in no bundle\n"
        "  nearest: b0.epb has kernel 'grouped' for sm_90a with E=4,K=64,N=96\n"
        "  what differs: the dim N\n"
        "  to build it: epifuse prebuild SPEC --kernel grouped --dims E=4,K=64,N=128 --target sm_90a -o FILE");
  CHECK(machine.kind == ErrorKind::environment);
  KernelQuery query = by_label();
  query.label.left_out = {"bias", "o'clock"};
  query.label.schedule = "pingpong 128x192";
  CHECK(contains(machine.complaint(query),
                 "what differs: what is left out and the plan that is asked for\n"
                 "  to build it: epifuse prebuild SPEC --kernel grouped --dims "
                 "E=4,K=64,N=96 --without bias --without 'o'\\''clock' "
                 "--schedule 'pingpong 128x192' --target sm_90a -o FILE"));
  query = by_label();
  query.label.target = "sm_100a";
  CHECK(contains(machine.complaint(query), "what differs: the target\n"));
  query = by_label();
  query.label.kernel = "fc1";
  CHECK(contains(machine.complaint(query), "with E=4,K=64,N=96 is in no bundle\n  b0.epb has: grouped\n"));
  // A request that is nowhere says of itself what it asks for.
  CHECK(contains(machine.complaint(by_request(deployed_entry(64))),
                 "kernel 'grouped' for sm_90a with E=4,K=64,N=64 is in no bundle\n  nearest: b0.epb has"));
  cache::BundleEntry seven = deployed_entry();
  seven.request = std::string(seven.request.view()) + "  %1 = const 7\n";
  CHECK(contains(machine.complaint(by_request(seven)), "the kernel's text: '(nothing)' there, '%1 = const 7' here"));
}

TEST_CASE("a GPU that the bundle has nothing for is told what there is") {
  cache::BundleEntry entry = deployed_entry();
  entry.label.target = "sm_100a";
  LibraryMachine machine({bundle_of({entry})});
  const auto prepared = machine.library.prepare(0);
  REQUIRE_FALSE(prepared);
  CHECK(prepared.error().kind == ErrorKind::environment);
  CHECK(prepared.error().message ==
        "no bundle has a kernel for GPU 0 (Fake GPU, compute capability 9.0), which is sm_90a; they have sm_100a");
  CHECK(contains(machine.complaint(by_label()), "what differs: the target"));
  CHECK(machine.driver.count("library_load_data") == 0);
}

TEST_CASE("a GPU that Epifuse has no kernels for") {
  LibraryMachine older({bundle_of({deployed_entry()})});
  older.driver.capability_major = 7;
  CHECK(contains(older.complaint(by_label()), "7.0"));
  CHECK(contains(older.library.prepare(0).error().message, "7.0"));
}

TEST_CASE("prepare loads each cubin once, and after seal nothing is loaded") {
  LibraryMachine machine({bundle_of({deployed_entry(), deployed_entry(192), deployed_entry(96, {"pre"})})});
  const auto prepared = machine.library.prepare(0);
  REQUIRE(prepared);
  CHECK(*prepared == 3);
  CHECK(machine.driver.count("library_load_data") == 1);  // N is a parameter
  CHECK(machine.driver.count("kernel_get_function") == 2);
  REQUIRE(machine.library.seal());
  machine.driver.forget();
  CHECK(machine.complaint(by_label()).empty());
  CHECK(machine.complaint(by_request(deployed_entry(192))).empty());
  CHECK(machine.complaint(by_label(), deploy::current_device).empty());
  CHECK(machine.library.prepare(0).operator*() == 3);
  CHECK(machine.driver.count("library_load_data") == 0);
  // What no bundle has is said as before.
  CHECK(contains(machine.complaint(by_label(128)), "what differs: the dim N"));
  machine.driver.device_count = 2;
  CHECK(machine.complaint(by_label(), 1) ==
        "GPU 1 was not prepared: everything was sealed, and nothing is loaded any more");
  const Status added = machine.library.add_bundle(SharedBytes(bundle_of({deployed_entry(32)})), "late.epb");
  REQUIRE_FALSE(added);
  CHECK(contains(added.error().message, "the bundle late.epb is not added: everything was sealed"));
}

TEST_CASE("a kernel that was not prepared before the seal is an error that names it") {
  LibraryMachine machine({bundle_of({deployed_entry(), deployed_entry(192)})});
  REQUIRE(machine.library.find(by_label(192), 0));
  REQUIRE(machine.library.seal());
  CHECK(machine.complaint(by_label(192)).empty());
  CHECK(
      machine.complaint(by_label()) ==
      "kernel 'grouped' for sm_90a with E=4,K=64,N=96 of the bundle b0.epb was not loaded: everything was sealed, and "
      "nothing is loaded any more");
  CHECK(machine.kind == ErrorKind::environment);
}

TEST_CASE("a seal before anything was prepared") {
  LibraryMachine unopened({bundle_of({deployed_entry()})});
  REQUIRE(unopened.library.seal());
  CHECK(contains(unopened.complaint(by_label()), "the driver was not opened"));
}

TEST_CASE("the driver reads the cubin where the bundle lies") {
  static const void* given;
  DeployMachine machine;
  auto table = std::make_shared<runtime::DriverApi>(*machine.driver.table());
  table->library_load_data = [](cuda::Library* library, const void* data, int*, void**, unsigned, int*, void**,
                                unsigned) {
    given = data;
    *library = reinterpret_cast<cuda::Library>(0x20001);
    return cuda::Code::success;
  };
  KernelLibrary library([table]() -> Result<runtime::Driver> { return runtime::Driver(table); });
  const std::string bytes = bundle_of({deployed_entry()});
  REQUIRE(library.add_bundle(SharedBytes(nullptr, bytes), "linked in"));
  REQUIRE(library.find(by_label(), 0));
  CHECK(given >= bytes.data());
  CHECK(given < bytes.data() + bytes.size());
  ++machine.driver.open_handles;  // the library that did not come from the fake
}

TEST_CASE("without a GPU a kernel can be looked at, and no driver is opened") {
  int opened = 0;
  KernelLibrary library([&]() -> Result<runtime::Driver> {
    ++opened;
    return environment_error("no driver");
  });
  REQUIRE(library.add_bundle(SharedBytes(bundle_of({deployed_entry()})), "b"));
  const Result<KernelPtr> kernel = library.find(by_label(), deploy::no_device);
  REQUIRE(kernel);
  CHECK_FALSE((*kernel)->module);
  CHECK((*kernel)->image.recipe.tensors.size() == 5);
  CHECK(library.prepare(deploy::no_device).operator*() == 1);
  CHECK(opened == 0);
  CHECK(library.find(by_label(), 0).error().message == "no driver");
  CHECK(opened == 1);
}

TEST_CASE("a damaged bundle is an error that names it, never a kernel") {
  const std::string whole = bundle_of({deployed_entry()});
  const ScratchDirectory folder;
  // Each byte of the file in turn: whatever it belongs to, it is an error, or it is padding and changes nothing.
  DeployMachine machine;
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] ^= 0x20;
    KernelLibrary library(machine.load_driver());
    const Status added = library.add_bundle(SharedBytes(bytes), "b.epb");
    const Result<KernelPtr> found = added ? library.find(by_label(), 0) : Result<KernelPtr>(added.error());
    if (found) {
      REQUIRE((*found)->image.cubin == sample_image().cubin);
      REQUIRE((*found)->image.recipe.to_json() == sample_recipe().to_json());
      continue;
    }
    ++refused;
    INFO(i << ": " << found.error().message);
    REQUIRE(found.error().kind == ErrorKind::wrong);
    REQUIRE(contains(found.error().message, "b.epb"));
  }
  CHECK(refused > 1000);

  const std::string path = folder / "kernels.epb";
  REQUIRE(real_file_system().write_atomically(path, whole.substr(0, whole.size() - 40)));
  KernelLibrary library(machine.load_driver());
  const Status cut = library.add_bundle(path);
  REQUIRE_FALSE(cut);
  CHECK(contains(cut.error().message, path));
  CHECK(contains(cut.error().message, "cut short"));
  CHECK(library.add_bundle(folder / "none.epb").error().kind == ErrorKind::user);
  CHECK(library.add_bundle(folder.path()).error().kind == ErrorKind::user);
  CHECK(library.add_bundle(SharedBytes("hello"), "text").error().message == "text is no bundle");
}

TEST_CASE("a bundle of a newer Epifuse is refused as that") {
  DeployMachine machine;
  KernelLibrary library(machine.load_driver());
  const Status added = library.add_bundle(
      SharedBytes(of_version(bundle_of({deployed_entry()}), static_cast<uint32_t>(bundle_version) + 1)), "new.epb");
  REQUIRE_FALSE(added);
  CHECK(added.error().kind == ErrorKind::user);
  CHECK(contains(added.error().message, "the bundle new.epb has version"));
  CHECK(contains(added.error().message, "was written by a newer Epifuse"));
}

TEST_CASE("a recipe that cannot be read names kernel and bundle") {
  cache::BundleEntry entry = deployed_entry();
  entry.recipe = "{}";
  LibraryMachine unreadable({bundle_of({entry})});
  CHECK(contains(unreadable.complaint(by_label()),
                 "kernel 'grouped' for sm_90a with E=4,K=64,N=96 of the bundle b0.epb cannot be used: "));
  CHECK(unreadable.kind == ErrorKind::wrong);
}

TEST_CASE("an entry whose parts are not of one kernel is damage that is named") {
  const auto complaint = [](const cache::BundleEntry& entry, int64_t n = 96) {
    LibraryMachine machine({bundle_of({entry})});
    const std::string text = machine.complaint(by_label(n));
    CHECK(machine.kind == ErrorKind::wrong);
    CHECK(machine.driver.count("library_load_data") == 0);
    return text;
  };
  cache::BundleEntry entry = deployed_entry();
  entry.label.dims["N"] = 192;
  CHECK(complaint(entry, 192) ==
        "kernel 'grouped' for sm_90a with E=4,K=64,N=192 of the bundle b0.epb cannot be used: its request is of kernel "
        "'grouped' for sm_90a with E=4,K=64,N=96");
  entry = deployed_entry();
  entry.cubin = fake_cubin({"gemm_entry"});
  CHECK(contains(complaint(entry), "its cubin has no function 'finish_entry'"));
  entry = deployed_entry();
  LaunchRecipe recipe = sample_recipe();
  recipe.steps[1].fields[0].value = IntExpr::symbol("M.stride0");  // of a tensor map, which has no use for it
  entry.recipe = recipe.to_json();
  CHECK(contains(complaint(entry), "uses 'M.stride0', which is unknown there"));
}

TEST_CASE("a cubin that the driver refuses names kernel and bundle, and may be tried again") {
  LibraryMachine machine({bundle_of({deployed_entry()})});
  machine.driver.fail["library_load_data"] = cuda::Code::illegal_address;
  CHECK(contains(machine.complaint(by_label()),
                 "kernel 'grouped' for sm_90a with E=4,K=64,N=96 of the bundle b0.epb cannot be used: loading kernel"));
  CHECK(machine.kind == ErrorKind::environment);
  machine.driver.fail.clear();
  CHECK(machine.complaint(by_label()).empty());
}

TEST_CASE("a cubin for another GPU under this one's name is refused before the driver sees it") {
  cache::BundleEntry entry = deployed_entry();
  entry.cubin = fake_cubin({"gemm_entry", "finish_entry"}, "cubin", 80);
  LibraryMachine machine({bundle_of({entry})});
  CHECK(machine.complaint(by_label()) ==
        "kernel 'grouped' for sm_90a with E=4,K=64,N=96 of the bundle b0.epb cannot be used: its cubin is for sm_80");
  CHECK(machine.kind == ErrorKind::wrong);
  CHECK(machine.driver.count("library_load_data") == 0);
}

TEST_CASE("threads that find the same kernels load each once") {
  LibraryMachine machine({bundle_of({deployed_entry(), deployed_entry(192)})});
  std::vector<KernelPtr> found(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] {
      if (const Result<KernelPtr> kernel = machine.library.find(by_label(i % 2 ? 96 : 192), 0)) found[i] = *kernel;
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i]);
    CHECK(found[i] == found[i % 2]);
  }
  CHECK(machine.driver.count("library_load_data") == 1);
}

TEST_CASE("what is left behind: kernels outlive the library, and nothing stays open") {
  DeployMachine machine;
  KernelPtr kernel;
  {
    KernelLibrary library(machine.load_driver());
    REQUIRE(library.add_bundle(SharedBytes(bundle_of({deployed_entry()})), "b"));
    kernel = *library.find(by_label(), 0);
  }
  CHECK(machine.driver.count("library_unload") == 0);
  CHECK(runtime::bind_call(kernel->module, sample_arguments()));
  kernel.reset();
  CHECK(machine.driver.count("library_unload") == 1);
  CHECK(machine.driver.open_handles == 0);
}

TEST_CASE("a child of a fork is told that the library is not its own") {
  LibraryMachine machine({bundle_of({deployed_entry()})});
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool told = machine.library.find(by_label(), deploy::no_device).error().kind == ErrorKind::environment &&
                      machine.library.prepare(0).error().kind == ErrorKind::environment && !machine.library.list() &&
                      !machine.library.seal() && !machine.library.add_bundle("b.epb");
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(machine.complaint(by_label()).empty());
}
