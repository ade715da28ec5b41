// The engine's decisions: which plan, from where, and how often the toolchain is called.
#include "jit/engine.h"

#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/ensure.h"
#include "tests/jit/support.h"
#include "tests/support/fake_driver.h"
#include "tests/support/faulty_file_system.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::From;

namespace {

// Says of the first `count` compiles that they spill, each less than the one before.
auto spill_first(int count) {
  return [count](int n, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) -> Status {
    if (n < count) outcome.spill_bytes = 100 - n;
    return {};
  };
}

size_t plan_count() {
  Diagnostics diagnostics;
  return plan_kernel(program_of(small_spec, diagnostics), "", {}, diagnostics)->lowered.plans.size();
}

}  // namespace

TEST_CASE("a kernel is compiled once, and found by every later engine on the same disk") {
  MemoryFileSystem disk;
  TestEngine first(disk);
  const auto compiled = first.compile();
  CHECK(compiled->from == From::toolchain);
  CHECK(compiled->plan == 0);
  CHECK(compiled->refused.empty());
  CHECK(compiled->image.registers == 168);
  CHECK(compiled->ptx == "// ptx of small");
  CHECK(compiled->image.recipe.to_json() == compiled->planned.lowered.plans[0].recipe.to_json());
  CHECK(first->toolchain_calls() == 1);
  CHECK(disk.exists("/cache/" + compiled->key));

  const auto again = first.compile();
  CHECK(again->from == From::memory);
  CHECK(again->ptx.empty());

  TestEngine second(disk);
  const auto found = second.compile();
  CHECK(found->from == From::disk);
  CHECK(found->key == compiled->key);
  CHECK(found->image.to_bytes() == compiled->image.to_bytes());
  CHECK(first->toolchain_calls() == 1);
  CHECK(second->toolchain_calls() == 0);
  CHECK(second.toolchain->calls() == 0);
}

TEST_CASE("an entry says for people what it holds") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  const auto compiled = engine.compile();
  std::vector<nlohmann::json> entries;
  REQUIRE(engine->cache().visit("", [&](const cache::ListedEntry& entry) {
    entries.push_back(nlohmann::json::parse(entry.found.entry.metadata));
  }));
  REQUIRE(entries.size() == 1);
  const nlohmann::json& json = entries.front();
  CHECK(json.at("kernel") == "small");
  CHECK(json.at("target") == "sm_90a");
  CHECK(json.at("dims") == nlohmann::json{{"E", 2}, {"K", 64}, {"N", 64}});
  CHECK(json.at("schedule") == compiled->schedule());
  CHECK(json.at("registers") == 168);
  CHECK(json.at("spill_bytes") == 0);
}

TEST_CASE("what is asked for decides what is found") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.compile();
  SECTION("another schedule is another artifact") {
    CompilerOptions options;
    options.schedule = lowering::schedule_name(engine.compile()->planned.lowered.plans.at(1).schedule);
    CHECK(engine.compile(small_spec, options)->from == From::toolchain);
  }
  SECTION("another text is another artifact") {
    std::string text = small_spec;
    text.replace(text.find("min"), 3, "max");
    CHECK(engine.compile(text)->from == From::toolchain);
  }
  // B66 of tests/cases: layers whose limits differ never share what a process or a disk holds for one of them.
  SECTION("another number of the spec is another artifact, also in a process that starts warm") {
    const auto limited = [](const std::string& limit) {
      std::string text = small_spec;
      return text.replace(text.find("param limit = 4"), 15, "const limit = " + limit);
    };
    const auto four = engine.compile(limited("4")), seven = engine.compile(limited("7"));
    CHECK(seven->from == From::toolchain);
    CHECK(four->key != seven->key);
    TestEngine warm(disk);
    CHECK(warm.compile(limited("7"))->key == seven->key);
    CHECK(warm.compile(limited("4"))->key == four->key);
    CHECK(warm->toolchain_calls() == 0);
  }
  SECTION("a comment is not") {
    CHECK(engine.compile(std::string("# a comment\n") + small_spec)->from == From::memory);
  }
  SECTION("another toolchain makes its own") {
    TestEngine other(disk);
    other.toolchain->installed = std::string("fake 2.0");
    CHECK(other.compile()->from == From::toolchain);
  }
}

TEST_CASE("a plan that spills is left, and no process compiles it again") {
  MemoryFileSystem disk;
  TestEngine first(disk);
  first.toolchain->say = spill_first(1);
  const auto compiled = first.compile();
  CHECK(compiled->plan == 1);
  REQUIRE(compiled->refused.size() == 1);
  CHECK(compiled->refused[0].schedule == lowering::schedule_name(compiled->planned.lowered.plans[0].schedule));
  CHECK(compiled->refused[0].reason == "spills 100 bytes");
  CHECK(compiled->image.warnings.empty());
  CHECK(first->toolchain_calls() == 2);
  // Whoever waited for both is told so, once.
  REQUIRE(first.lines(LogLevel::warn).size() == 1);
  CHECK(first.lines(LogLevel::warn)[0] ==
        fmt::format("kernel 'small': '{}' is used; plans that were compiled before it and left: {} (spills 100 bytes)",
                    compiled->schedule(), compiled->refused[0].schedule));

  TestEngine second(disk);
  const auto found = second.compile();
  CHECK(second.lines(LogLevel::warn).empty());
  CHECK(found->plan == 1);
  CHECK(found->from == From::disk);
  REQUIRE(found->refused.size() == 1);
  CHECK(found->refused[0].reason == "spills 100 bytes");
  CHECK(second->toolchain_calls() == 0);
}

TEST_CASE("a plan that waits for each wgmma is left") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int n, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.wgmma_serialized = n == 0;
    return {};
  };
  const auto compiled = engine.compile();
  CHECK(compiled->plan == 1);
  CHECK(compiled->refused.at(0).reason == "waits for each wgmma");
}

TEST_CASE("when every plan spills, the best is used with a warning, and the next process compiles nothing") {
  MemoryFileSystem disk;
  const auto plans = static_cast<int>(plan_count());
  REQUIRE(plans >= 2);
  TestEngine first(disk);
  first.toolchain->say = spill_first(plans);
  const auto compiled = first.compile();
  CHECK(compiled->plan == static_cast<size_t>(plans - 1));  // the last one spills least
  CHECK(compiled->image.spill_bytes == 100 - (plans - 1));
  CHECK(compiled->refused.size() == static_cast<size_t>(plans - 1));
  CHECK(first->toolchain_calls() == plans);  // what was compiled to look at it is not compiled again
  CHECK(compiled->from == From::toolchain);
  CHECK(contains(compiled->ptx, "// ptx of"));
  CHECK(compiled->said == compiled->image.warnings.back());
  REQUIRE(compiled->image.warnings.size() == 1);
  CHECK(contains(compiled->image.warnings[0], "no plan of kernel 'small' is free of spills"));
  CHECK(contains(compiled->image.warnings[0], compiled->schedule()));
  for (const jit::RefusedPlan& refused : compiled->refused)
    CHECK(contains(compiled->image.warnings[0], fmt::format("{} ({})", refused.schedule, refused.reason)));
  CHECK(first.lines(LogLevel::warn) == compiled->image.warnings);

  TestEngine second(disk);
  const auto found = second.compile();
  CHECK(found->plan == compiled->plan);
  CHECK(found->from == From::disk);
  CHECK(found->image.to_bytes() == compiled->image.to_bytes());
  CHECK(second->toolchain_calls() == 0);
  CHECK(second.lines(LogLevel::warn).size() == 1);  // said again
  CHECK(second.compile()->from == From::memory);
}

TEST_CASE("a plan that is asked for is used though it spills, and the warning says so") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = spill_first(100);
  CompilerOptions options;
  options.schedule = lowering::schedule_name(engine.compile()->planned.lowered.plans.at(1).schedule);
  const auto compiled = engine.compile(small_spec, options);
  CHECK(compiled->schedule() == options.schedule);
  CHECK(contains(compiled->said,
                 fmt::format("the plan '{}' of kernel 'small', which was asked for, spills", options.schedule)));
}

TEST_CASE("a serialised plan is a worse way out than one that spills") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int n, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    (n == 1 ? outcome.spill_bytes : outcome.registers) = 255;
    outcome.wgmma_serialized = n != 1;
    return {};
  };
  CHECK(engine.compile()->plan == 1);
}

TEST_CASE("an evicted image of a refused plan is made again") {
  MemoryFileSystem disk;
  TestEngine first(disk);
  first.toolchain->say = spill_first(100);
  const auto compiled = first.compile();
  REQUIRE(disk.remove("/cache/" + compiled->key));
  TestEngine second(disk);
  second.toolchain->say = [&](int, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.spill_bytes = compiled->image.spill_bytes;
    return {};
  };
  CHECK(second.compile()->from == From::toolchain);
  CHECK(second->toolchain_calls() == 1);
}

TEST_CASE("without a toolchain, an entry of any toolchain is used, and said so") {
  MemoryFileSystem disk;
  TestEngine with(disk);
  const auto compiled = with.compile();
  TestEngine without(disk);
  without.toolchain->installed = environment_error("no libnvrtc was found; install nvidia-cuda-nvrtc");
  const auto found = without.compile();
  CHECK(found->from == From::disk);
  CHECK(found->key == compiled->key);
  CHECK(found->image.cubin == compiled->image.cubin);
  const auto said = without.lines(LogLevel::info);
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "made by fake 1.0"));
  CHECK(contains(said[0], "no libnvrtc was found"));
}

TEST_CASE("without a toolchain, redirects lead on as well") {
  MemoryFileSystem disk;
  TestEngine with(disk);
  with.toolchain->say = spill_first(1);
  with.compile();
  TestEngine without(disk);
  without.toolchain->installed = environment_error("none");
  const auto found = without.compile();
  CHECK(found->plan == 1);
  CHECK(found->refused.size() == 1);
}

TEST_CASE("without a toolchain and without an entry, the error says what is missing") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->installed = environment_error("no libnvrtc was found; install nvidia-cuda-nvrtc");
  const Error error = engine.compile_error();
  CHECK(error.kind == ErrorKind::environment);
  CHECK(contains(error.message, "kernel 'small' for sm_90a is not in the cache"));
  CHECK(contains(error.message, "install nvidia-cuda-nvrtc"));
  CHECK(engine.toolchain->calls() == 0);
}

TEST_CASE("EPIFUSE_JIT=off forbids a compile and allows a hit") {
  MemoryFileSystem disk;
  const auto jit_off = [](jit::EngineOptions& options) { options.settings.jit = false; };
  TestEngine off(disk, "/cache", jit_off);
  const Error error = off.compile_error();
  CHECK(error.kind == ErrorKind::environment);
  CHECK(contains(error.message, "EPIFUSE_JIT is off"));
  TestEngine on(disk);
  on.compile();
  CHECK(off.compile()->from == From::disk);
  CHECK(off->toolchain_calls() == 0);
}

TEST_CASE("a CUDA text that does not compile is a bug of ours, and is not tried twice") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int, const auto&, auto&) -> Status { return user_error("line 7: expected a ';'"); };
  for (int i = 0; i < 2; ++i) {
    Diagnostics diagnostics;
    const Program program = program_of(small_spec, diagnostics);
    REQUIRE_THROWS_AS((void)engine->compile(program, "", {}, diagnostics), InternalError);
  }
  CHECK(engine->toolchain_calls() == 1);
}

TEST_CASE("a toolchain that cannot be used is the machine's error, and may work the next time") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int n, const auto&, auto&) -> Status {
    if (n == 0) return environment_error("out of memory");
    return {};
  };
  CHECK(contains(engine.compile_error().message, "out of memory"));
  CHECK(engine.compile()->from == From::toolchain);
}

TEST_CASE("mistakes in a spec are diagnostics, and nothing is compiled") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  Diagnostics diagnostics;
  const Program program = program_of("kernel k {\n  dim N\n  out y : bf16[N] = nothing\n}\n", diagnostics);
  const auto compiled = engine->compile(program, "", {}, diagnostics);
  REQUIRE(compiled);
  CHECK_FALSE(*compiled);
  CHECK(diagnostics.has_errors());
  CHECK(engine->toolchain_calls() == 0);
}

TEST_CASE("eight threads that want one kernel compile it once") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->takes = std::chrono::milliseconds(50);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  std::string keys[8];
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Diagnostics diagnostics;
      const Program program = program_of(small_spec, diagnostics);
      const auto compiled = engine->compile(program, "", {}, diagnostics);
      if (!compiled || !*compiled) return;
      keys[i] = (**compiled)->key;
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
  for (const std::string& key : keys) CHECK(key == keys[0]);
  CHECK(engine->toolchain_calls() == 1);
}

TEST_CASE("two kernels compile at the same time, and come back in their order") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  std::mutex mutex;
  std::condition_variable arrived;
  int inside = 0;
  bool together = false;
  // Neither ends before both have begun.
  engine.toolchain->say = [&](int, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) {
    std::unique_lock<std::mutex> guard(mutex);
    ++inside;
    arrived.notify_all();
    together = arrived.wait_for(guard, std::chrono::seconds(20), [&] { return inside == 2; });
    outcome.phases = {1, 20, 300};
    outcome.milliseconds = 321;
    return Status();
  };
  std::vector<PlannedKernel> planned;
  for (const char* name : {"first", "second"}) {
    std::string text = small_spec;
    text.replace(text.find("small"), 5, name);
    Diagnostics diagnostics;
    planned.push_back(*plan_kernel(program_of(text, diagnostics), "", {}, diagnostics));
  }
  const auto made = engine->compile_all(std::move(planned), 2);
  CHECK(together);
  REQUIRE(made.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(made[i]);
    CHECK((*made[i])->image.recipe.kernel == (i == 0 ? "first" : "second"));
    CHECK((*made[i])->times.toolchain == 321);
    CHECK((*made[i])->times.phases.nvvm == 20);
  }
}

TEST_CASE("a warm start reads one file for each plan that it comes to, and nothing else") {
  for (const int refused : {0, 1}) {
    MemoryFileSystem memory;
    {
      TestEngine cold(memory);
      cold.toolchain->say = spill_first(refused);
      Diagnostics diagnostics;
      REQUIRE(cold->compile(program_of(small_spec, diagnostics), "", {}, diagnostics));
    }
    FaultyFileSystem disk(memory);
    TestEngine warm(disk);
    Diagnostics diagnostics;
    const auto compiled = warm->compile(program_of(small_spec, diagnostics), "", {}, diagnostics);
    REQUIRE(compiled);
    CHECK((**compiled)->from == From::disk);
    CHECK(disk.counts.reads == 1 + refused);
    CHECK(disk.counts.lists + disk.counts.writes + disk.counts.locks + disk.counts.directories == 0);
  }
}

TEST_CASE("the times of refused plans are counted, and a hit has none") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int n, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) {
    outcome.spill_bytes = n == 0 ? 8 : 0;
    outcome.milliseconds = 100;
    outcome.phases = {10, 40, 50};
    return Status();
  };
  Diagnostics diagnostics;
  const Program program = program_of(small_spec, diagnostics);
  const auto compiled = engine->compile(program, "", {}, diagnostics);
  REQUIRE(compiled);
  REQUIRE(*compiled);
  REQUIRE((**compiled)->refused.size() == 1);
  CHECK((**compiled)->times.toolchain == 200);
  CHECK((**compiled)->times.phases.ptxas == 100);
  const auto again = engine->compile(program, "", {}, diagnostics);
  REQUIRE(again);
  CHECK((**again)->times.toolchain == 0);
  CHECK((**again)->times.plan > 0);
}

TEST_CASE("a cache that cannot be used costs one warning and nothing else") {
  MemoryFileSystem memory;
  FaultyFileSystem disk(memory);
  disk.good_writes = 0;
  TestEngine engine(disk);
  CHECK(engine.compile()->from == From::toolchain);
  CHECK(engine.compile()->from == From::memory);
  CHECK(engine.lines(LogLevel::warn).size() == 1);
}

TEST_CASE("the cache is left alone when that is asked for") {
  MemoryFileSystem disk;
  SECTION("neither read nor written") {
    TestEngine filled(disk);
    filled.compile();
    const size_t files = disk.nodes().size();
    TestEngine engine(disk, "/cache", [](jit::EngineOptions& o) { o.read_cache = o.write_cache = false; });
    CHECK(engine.compile()->from == From::toolchain);
    CHECK(engine.compile()->from == From::memory);
    CHECK(disk.nodes().size() == files);
    CHECK(engine.lines(LogLevel::warn).empty());
  }
  SECTION("read and not written") {
    const auto no_writes = [](jit::EngineOptions& o) { o.write_cache = false; };
    TestEngine engine(disk, "/cache", no_writes);
    CHECK(engine.compile()->from == From::toolchain);
    CHECK(disk.nodes().empty());
    TestEngine filled(disk);
    filled.compile();
    TestEngine reader(disk, "/cache", no_writes);
    CHECK(reader.compile()->from == From::disk);
    CHECK(reader.lines(LogLevel::warn).empty());
  }
}

TEST_CASE("an entry that is no image is compiled around, with a warning") {
  MemoryFileSystem disk;
  TestEngine first(disk);
  const auto compiled = first.compile();
  const std::string path = "/cache/" + compiled->key;
  const std::string bytes = *disk.read(path);
  const cache::EntryView entry = cache::decode_entry(bytes).entry;
  disk.put(path, cache::encode_entry(
                     {entry.kind, std::string(entry.request), std::string(entry.toolchain), "{}", "no image"}));
  TestEngine second(disk);
  const auto again = second.compile();
  CHECK(again->from == From::toolchain);
  CHECK(again->image.cubin == compiled->image.cubin);
  REQUIRE(second.lines(LogLevel::warn).size() == 1);
  CHECK(contains(second.lines(LogLevel::warn)[0], path));
}

TEST_CASE("a kernel is loaded once for each device") {
  FakeDriver driver;
  driver.device_count = 2;
  MemoryFileSystem disk;
  TestEngine engine(disk);
  const auto compiled = engine.compile();
  const RecipeStep& step = compiled->image.recipe.steps.at(0);
  driver.entries = {{step.entry, step.parameter_bytes}};
  std::vector<runtime::DevicePtr> devices;
  for (const int ordinal : {0, 1}) {
    const auto device = runtime::Device::open(driver.table(), ordinal);
    REQUIRE(device);
    devices.push_back(*device);
  }
  runtime::ModulePtr modules[2];
  for (const size_t i : {0, 1, 0, 1}) {
    const auto loaded = engine->load(compiled, devices[i]);
    INFO((loaded ? std::string() : loaded.error().message));
    REQUIRE(loaded);
    CHECK(loaded->compiled == compiled);
    CHECK(&loaded->module->device() == devices[i].get());
    if (modules[i]) CHECK(loaded->module == modules[i]);
    modules[i] = loaded->module;
  }
  CHECK(driver.count("library_load_data") == 2);
}
