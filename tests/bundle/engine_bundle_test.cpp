// The engine and bundles: what is found there needs no toolchain and no disk, and a miss says what there is.
#include <algorithm>

#include "base/cubin.h"
#include "cache/bundle_writer.h"
#include "jit/bundled_kernels.h"
#include "jit/tuning_file.h"
#include "jit/unfused.h"
#include "tests/jit/support.h"
#include "tests/support/faulty_file_system.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

std::string bundle_of(const std::vector<jit::CompiledKernelPtr>& kernels) {
  std::vector<cache::BundleEntry> entries;
  for (const jit::CompiledKernelPtr& kernel : kernels) entries.push_back(jit::bundle_entry(*kernel, "fake 1.0"));
  Result<std::string> bytes = cache::encode_bundle(std::move(entries));
  REQUIRE(bytes);
  return *std::move(bytes);
}

// The small spec, prebuilt on another machine.
std::string small_bundle(const CompilerOptions& options = {}) {
  MemoryFileSystem disk;
  TestEngine builder(disk);
  return bundle_of({builder.compile(small_spec, options)});
}

// A machine with that bundle and nothing else that it may use: no toolchain, JIT off.
std::function<void(jit::EngineOptions&)> sealed(std::vector<std::string> bundles = {"/b.epb"}) {
  return [bundles](jit::EngineOptions& options) {
    options.settings.bundles = bundles;
    options.settings.jit = false;
  };
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Error error_of(TestEngine& engine, const std::string& spec, const CompilerOptions& options = {}) {
  Diagnostics diagnostics;
  const Program program = program_of(spec, diagnostics);
  const auto compiled = engine->compile(program, "", options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE_FALSE(compiled);
  return compiled.error();
}

}  // namespace

TEST_CASE("a kernel of a bundle is the compiled one, and nothing is compiled, asked or written for it") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  const jit::CompiledKernelPtr built = builder.compile();
  disk.put("/b.epb", bundle_of({built}));
  FaultyFileSystem counted(disk);
  TestEngine engine(counted, "/cache", sealed());
  engine.toolchain->installed = environment_error("no toolchain here");
  const jit::CompiledKernelPtr found = engine.compile();
  CHECK(found->from == jit::From::bundle);
  CHECK(jit::from_name(found->from) == "bundle");
  CHECK(found->bundle == "/b.epb");
  CHECK(found->image.cubin == built->image.cubin);
  CHECK(found->image.recipe.to_json() == built->image.recipe.to_json());
  CHECK(found->image.registers == built->image.registers);
  CHECK(found->key == built->key);
  CHECK(found->schedule() == built->schedule());
  CHECK(found->plan == built->plan);
  CHECK(engine->toolchain_calls() == 0);
  CHECK(engine.toolchain->calls() == 0);
  CHECK(counted.counts.reads == 1);  // the bundle
  CHECK(counted.counts.writes == 0);
  CHECK(counted.counts.directories == 0);
  CHECK(counted.counts.locks == 0);
  CHECK_FALSE(disk.exists("/cache"));
}

TEST_CASE("the bundle goes before the cache, and without JIT off a miss is compiled") {
  MemoryFileSystem disk;
  disk.put("/b.epb", small_bundle());
  const auto with_bundle = [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; };
  TestEngine(disk).compile();
  TestEngine engine(disk, "/cache", with_bundle);
  CHECK(engine.compile()->from == jit::From::bundle);
  CompilerOptions other;
  other.left_out = {"q"};
  CHECK(engine.compile(small_spec, other)->from == jit::From::toolchain);
  const std::vector<std::string> said = engine.lines(LogLevel::info);
  REQUIRE_FALSE(said.empty());
  CHECK(contains(said.front(), "kernel 'small' for sm_90a with E=2,K=64,N=64, without q is in no bundle"));
  CHECK(TestEngine(disk, "/cache", with_bundle).compile(small_spec, other)->from == jit::From::disk);

  // Nothing on disk is wanted: no bundle either.
  TestEngine apart(disk, "/cache", [](jit::EngineOptions& options) {
    options.settings.bundles = {"/b.epb"};
    options.read_cache = options.write_cache = false;
  });
  CHECK(apart.compile()->from == jit::From::toolchain);
}

TEST_CASE("with JIT off a miss says what the bundle has, what differs, and the command that builds it") {
  MemoryFileSystem disk;
  disk.put("/b.epb", small_bundle());
  TestEngine engine(disk, "/cache", sealed());
  CompilerOptions options;
  options.dims = {{"K", 128}, {"E", 4}};
  Error error = error_of(engine, small_spec, options);
  CHECK(error.kind == ErrorKind::environment);
  INFO(error.message);
  CHECK(contains(error.message, "EPIFUSE_JIT is off"));
  CHECK(contains(error.message, "kernel 'small' for sm_90a with E=4,K=128,N=64 is in no bundle"));
  CHECK(contains(error.message, "nearest: /b.epb has kernel 'small' for sm_90a with E=2,K=64,N=64"));
  CHECK(contains(error.message, "what differs: the dims E, K"));
  CHECK(contains(error.message,
                 "epifuse prebuild small.epi --kernel small --dims E=4,K=128,N=64 --target sm_90a -o FILE"));

  options = {};
  options.left_out = {"p"};
  options.schedule = "pingpong 128x64";
  error = error_of(engine, small_spec, options);
  INFO(error.message);
  CHECK(contains(error.message, "what differs: what is left out and the plan that is asked for"));
  CHECK(contains(error.message, " --without p --schedule 'pingpong 128x64' --target sm_90a"));

  error = error_of(
      engine, replaced(small_spec, "v     = min(gemm(x, w), limit) * p", "v     = min(gemm(x, w), limit) * p * 3"));
  INFO(error.message);
  CHECK(contains(error.message, "what differs: the kernel's text: '"));

  error = error_of(engine, replaced(small_spec, "kernel small", "kernel other"));
  INFO(error.message);
  CHECK(contains(error.message, "/b.epb has: small"));
  CHECK(engine->toolchain_calls() == 0);

  TestEngine none(disk, "/cache", sealed({}));
  CHECK(contains(none.compile_error().message, "there is no bundle (EPIFUSE_BUNDLES)"));
  TestEngine missing(disk, "/cache", sealed({"/missing.epb"}));
  CHECK(contains(missing.compile_error().message, "/missing.epb"));
}

TEST_CASE("a bundle that is damaged, older or of another recipe is left with a warning, and the kernel is compiled") {
  MemoryFileSystem disk;
  std::string bytes = small_bundle();
  bytes[bytes.rfind("cubin of")] ^= 1;
  disk.put("/b.epb", bytes);
  TestEngine engine(disk, "/cache", [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; });
  CHECK(engine.compile()->from == jit::From::toolchain);
  REQUIRE(engine.lines(LogLevel::warn).size() == 1);
  CHECK(contains(engine.lines(LogLevel::warn).front(), "the bundle /b.epb is damaged"));

  MemoryFileSystem other;
  TestEngine builder(other);
  cache::BundleEntry entry = jit::bundle_entry(*builder.compile(), "fake");
  entry.recipe = replaced(std::string(entry.recipe.view()), "\"recipe\":", "\"recipe\":9");
  disk.put("/b.epb", *cache::encode_bundle({entry}));
  TestEngine again(disk, "/cache2", [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; });
  CHECK(again.compile()->from == jit::From::toolchain);
  REQUIRE(again.lines(LogLevel::warn).size() == 1);
  CHECK(contains(again.lines(LogLevel::warn).front(), "cannot be used"));
}

TEST_CASE("B117 a bundle for other GPUs alone: compiled where that is allowed, else both targets are named") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  cache::BundleEntry entry = jit::bundle_entry(*builder.compile(), "fake 1.0");
  entry.label.target = "sm_100a";
  entry.request = replaced(std::string(entry.request.view()), "target sm_90a", "target sm_100a");
  disk.put("/b.epb", *cache::encode_bundle({entry}));
  TestEngine strict(disk, "", sealed());
  const Error error = strict.compile_error();
  INFO(error.message);
  CHECK(contains(error.message, "kernel 'small' for sm_90a with E=2,K=64,N=64 is in no bundle"));
  CHECK(contains(error.message, "nearest: /b.epb has kernel 'small' for sm_100a"));
  CHECK(contains(error.message, "what differs: the target"));
  TestEngine free(disk, "/cache", [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; });
  CHECK(free.compile()->from == jit::From::toolchain);
  CHECK(free.lines(LogLevel::warn).empty());
}

TEST_CASE("a cubin for another GPU under this one's name is left before a driver sees it") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  cache::BundleEntry entry = jit::bundle_entry(*builder.compile(), "fake 1.0");
  std::string cubin(entry.cubin.view());
  const auto with_bundle = [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; };
  for (const int capability : {80, 90}) {
    cubin[49] = static_cast<char>(capability);
    entry.cubin = cubin;
    disk.put("/b.epb", *cache::encode_bundle({entry}));
    TestEngine engine(disk, "/cache", with_bundle);
    CHECK((engine.compile()->from == jit::From::bundle) == (capability == 90));
    CHECK(engine.lines(LogLevel::warn).size() == (capability == 90 ? 0 : 1));
    if (capability == 80) CHECK(contains(engine.lines(LogLevel::warn)[0], "its cubin is for sm_80"));
  }
  CHECK(cubin_capability(cubin) == 90);
  cubin[8] = 7;  // an older ABI: the byte below
  cubin[48] = 86;
  CHECK(cubin_capability(cubin) == 86);
  CHECK_FALSE(cubin_capability(cubin.substr(0, 63)));
  CHECK_FALSE(cubin_capability("cubin of nothing"));
}

TEST_CASE("an entry whose parts are not of one kernel is as if it were not there, and says which part") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  const std::string other_spec = replaced(small_spec, "kernel small", "kernel other");
  const cache::BundleEntry whole = jit::bundle_entry(*builder.compile(), "fake 1.0");
  const cache::BundleEntry other = jit::bundle_entry(*builder.compile(other_spec), "fake 1.0");
  const auto warning = [&](const std::function<void(cache::BundleEntry&)>& change) {
    cache::BundleEntry entry = whole;
    change(entry);
    disk.put("/b.epb", *cache::encode_bundle({entry}));
    TestEngine engine(disk, "/cache", [](jit::EngineOptions& options) { options.settings.bundles = {"/b.epb"}; });
    const bool used = engine.compile()->from == jit::From::bundle;
    const std::vector<std::string> said = engine.lines(LogLevel::warn);
    CHECK(used == said.empty());
    // Tools say the same.
    const auto read = jit::read_entry(entry, "/b.epb");
    CHECK(used == read.operator bool());
    if (!read && !said.empty()) CHECK(read.error().message == said.front());
    return said.empty() ? "" : said.front();
  };
  CHECK(warning([](cache::BundleEntry&) {}).empty());
  CHECK(warning([](cache::BundleEntry& entry) { entry.label.dims["K"] = 256; }) ==
        "kernel 'small' for sm_90a with E=2,K=256,N=64 of the bundle /b.epb cannot be used: its request is of kernel "
        "'small' for sm_90a with E=2,K=64,N=64");
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.label = other.label; }),
                 "its request is of kernel 'small'"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.label.left_out = {"q"}; }), "its request is of"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.label.schedule = "pass"; }), "its request is of"));
  const std::string in_other = "its cubin has no function 'kernel_";
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.cubin = other.cubin; }), in_other + "small"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.recipe = other.recipe; }), in_other + "other"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.recipe = other.recipe, entry.cubin = other.cubin; }),
                 "its recipe is of kernel 'other' for sm_90a"));
  const std::string none = "what it has for a cubin is none";
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.cubin = SharedBytes(""); }), none));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.cubin = whole.cubin.part(0, 100); }), none));
  CHECK(
      contains(warning([&](cache::BundleEntry& entry) { entry.cubin = std::string(whole.cubin.size(), '\0'); }), none));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.info = "{}"; }), "does not say how"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) { entry.image = "{}"; }), "the metadata cannot be read"));
  CHECK(contains(warning([&](cache::BundleEntry& entry) {
                   entry.recipe = replaced(std::string(whole.recipe.view()), "{\"name\":\"K\",", "{\"name\":\"Q\",");
                 }),
                 "which is unknown there"));
}

TEST_CASE("tools see that the parts of an entry were never of one build") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  CompilerOptions options;
  options.left_out = {"q"};
  const cache::BundleEntry whole = jit::bundle_entry(*builder.compile(), "fake 1.0");
  const cache::BundleEntry other = jit::bundle_entry(*builder.compile(small_spec, options), "fake 1.0");
  REQUIRE(jit::read_entry(whole, "b.epb"));
  // Of the same name and functions: no use can tell.
  cache::BundleEntry mixed = whole;
  mixed.cubin = other.cubin;
  REQUIRE(mixed.cubin.view() != whole.cubin.view());
  const auto read = jit::read_entry(mixed, "b.epb");
  REQUIRE_FALSE(read);
  CHECK(read.error().kind == ErrorKind::wrong);
  CHECK(contains(read.error().message, "its parts are not those that it was made of"));
  mixed = whole;
  mixed.recipe = other.recipe;
  CHECK_FALSE(jit::read_entry(mixed, "b.epb"));
  mixed = whole;
  mixed.image = replaced(std::string(whole.image.view()), "168", "169");
  CHECK_FALSE(jit::read_entry(mixed, "b.epb"));
}

TEST_CASE("a bundle is found whatever toolchain made it, and wherever the spec lies") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  builder.toolchain->installed = std::string("another 2.0");
  disk.put("/b.epb", bundle_of({builder.compile()}));
  TestEngine engine(disk, "/cache", sealed());
  CHECK(engine.compile("# moved\n" + std::string(small_spec))->from == jit::From::bundle);
}

TEST_CASE("bundles are added to a running engine, from files and from memory") {
  MemoryFileSystem disk;
  const std::string bytes = small_bundle();
  disk.put("/b.epb", bytes);
  TestEngine engine(disk, "", sealed({}));
  CHECK_FALSE(engine->add_bundle("/missing.epb"));
  CHECK(engine->add_bundle(SharedBytes("hello"), "text").error().message == "text is no bundle");
  engine.compile_error();
  REQUIRE(engine->add_bundle(SharedBytes(nullptr, bytes), "in memory"));
  CHECK(engine.compile()->bundle == "in memory");
  TestEngine from_file(disk, "", sealed({}));
  REQUIRE(from_file->add_bundle("/b.epb"));
  CHECK(from_file.compile()->bundle == "/b.epb");
}

TEST_CASE("a kernel whose better plans were refused says so from the bundle, and is not stale") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  builder.toolchain->say = [](int n, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) {
    outcome.spill_bytes = n == 0 ? 48 : 0;
    return Status();
  };
  const jit::CompiledKernelPtr built = builder.compile();
  REQUIRE(built->refused.size() == 1);
  const cache::BundleEntry entry = jit::bundle_entry(*built, "fake 1.0");
  disk.put("/b.epb", *cache::encode_bundle({entry}));
  TestEngine engine(disk, "", sealed());
  const jit::CompiledKernelPtr found = engine.compile();
  REQUIRE(found->refused.size() == 1);
  CHECK(found->refused[0].schedule == built->refused[0].schedule);
  CHECK(found->refused[0].reason == "spills 48 bytes");
  CHECK(found->plan == 1);
  CHECK(jit::why_stale(*jit::BundleInfo::parse(entry.info), built->planned).empty());
}

TEST_CASE("what would be built otherwise today is stale, with the reason") {
  MemoryFileSystem disk;
  TestEngine builder(disk);
  const jit::CompiledKernelPtr built = builder.compile();
  const jit::BundleInfo info = *jit::BundleInfo::parse(jit::bundle_entry(*built, "fake 1.0").info);
  CHECK(jit::why_stale(info, built->planned).empty());
  jit::BundleInfo other = info;
  other.source = "0";
  CHECK(jit::why_stale(other, built->planned) == "the plan " + info.plan + " has other code now");
  other = info;
  other.plan = "another";
  CHECK(jit::why_stale(other, built->planned) == "the plan is now " + info.plan + ", not another");
  other = info;
  REQUIRE(built->planned.lowered.plans.size() > 1);
  other.tuned = other.plan = lowering::schedule_name(built->planned.lowered.plans[1].schedule);
  CHECK(jit::why_stale(other, built->planned) == "the tuning file names no plan, not " + other.plan);
  // Equal facts give equal bytes.
  CHECK(jit::BundleInfo::parse(info.to_json())->to_json() == info.to_json());
  CHECK_FALSE(jit::BundleInfo::parse("[]"));
  CHECK_FALSE(jit::BundleInfo::parse("{\"plan\":\"p\"}"));
}

TEST_CASE("the kernels of an unfused form come from a bundle too") {
  MemoryFileSystem disk;
  Diagnostics diagnostics;
  const Program program = program_of(small_spec, diagnostics);
  TestEngine builder(disk, "/built");
  const auto built = jit::compile_unfused(*builder, program, "", {}, diagnostics);
  REQUIRE(built);
  REQUIRE(*built);
  disk.put("/b.epb", bundle_of((**built)->stages));
  TestEngine engine(disk, "", sealed());
  const auto found = jit::compile_unfused(*engine, program, "", {}, diagnostics);
  REQUIRE(found);
  REQUIRE(*found);
  for (const jit::CompiledKernelPtr& stage : (**found)->stages) CHECK(stage->from == jit::From::bundle);
  CHECK(engine->toolchain_calls() == 0);
}

TEST_CASE("a tuning file on the machine is newer than a bundle, unless nothing may be compiled") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  const jit::CompiledKernelPtr built = builder.compile();
  REQUIRE(built->planned.lowered.plans.size() > 1);
  disk.put("/b.epb", bundle_of({built}));
  const std::string other = lowering::schedule_name(built->planned.lowered.plans[1].schedule);
  jit::TunedPlan plan;
  plan.key = jit::tuning_key(built->planned.request);
  plan.schedule = other;
  plan.kernel = "small";
  plan.target = "sm_90a";
  disk.put("/tuning.json", jit::print_tuning_file({plan}));
  const auto tuned = [](bool jit) {
    return [jit](jit::EngineOptions& options) {
      options.settings.bundles = {"/b.epb"};
      options.settings.tuning = "/tuning.json";
      options.settings.jit = jit;
    };
  };
  TestEngine engine(disk, "", tuned(true));
  const jit::CompiledKernelPtr compiled = engine.compile();
  CHECK(compiled->from == jit::From::toolchain);
  CHECK(compiled->schedule() == other);
  CHECK(TestEngine(disk, "", tuned(false)).compile()->from == jit::From::bundle);
  // A bundle that was built with the plan has it.
  disk.put("/b.epb", bundle_of({compiled}));
  const jit::CompiledKernelPtr found = TestEngine(disk, "", tuned(true)).compile();
  CHECK(found->from == jit::From::bundle);
  CHECK(found->schedule() == other);
  CHECK(found->planned.is_tuned(found->plan));
}

TEST_CASE(
    "a tuning file that names the plan that a bundle has, however it spells it, leaves the bundle's kernel good") {
  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  const jit::CompiledKernelPtr built = builder.compile();
  const auto planned_with = [](const std::string& name) {
    Diagnostics diagnostics;
    const Program program = program_of(small_spec, diagnostics);
    CompilerOptions options;
    if (!name.empty()) options.tuned = [name](const std::string&) { return name; };
    return *plan_kernel(program, "", options, diagnostics);
  };
  const std::string first = built->schedule();
  // What the planner chooses by itself may be said.
  const std::string spelled =
      first + " stages " + std::to_string(built->planned.lowered.plans.front().schedule.usual_stages);
  REQUIRE(planned_with(spelled).lowered.has_preferred);

  // Built without a tuning file, with one, and with one that is spelled otherwise: all are the same kernel.
  const auto bundle_with = [&](const std::string& name) {
    return jit::bundle_entry(**builder->compile(planned_with(name)), "fake 1.0");
  };
  for (const std::string& with : {std::string(), first, spelled}) {
    const cache::BundleEntry entry = bundle_with(with);
    const jit::BundleInfo info = *jit::BundleInfo::parse(entry.info);
    CHECK(info.tuned == (with.empty() ? "" : first));
    cache::BundleSet bundles(disk, {}, nullptr);
    REQUIRE(bundles.add(SharedBytes(*cache::encode_bundle({entry})), "b.epb"));
    for (const std::string& now : {std::string(), first, spelled}) {
      INFO("with '" << with << "', now '" << now << "'");
      const PlannedKernel planned = planned_with(now);
      CHECK(jit::why_stale(info, planned).empty());
      const jit::BundleAnswer answer = jit::ask_bundles(bundles, planned, true);
      CHECK(answer.kernel);
      CHECK(answer.passed_over.empty());
    }
    // Another plan goes first, and makes what is there stale.
    const PlannedKernel other = planned_with(first + " band 7");
    REQUIRE(other.lowered.has_preferred);
    CHECK(!jit::ask_bundles(bundles, other, true).kernel);
    CHECK(jit::ask_bundles(bundles, other, false).kernel);
    CHECK(contains(jit::why_stale(info, other), "the tuning file names " + first + " band 7, not "));
  }
}

TEST_CASE("a plan that only a tuner lists is the bundle's also where there is no tuning file") {
  Diagnostics diagnostics;
  const Program program = program_of(small_spec, diagnostics);
  CompilerOptions all;
  all.all_plans = true;
  const auto listed = plan_kernel(program, "", {}, diagnostics);
  const auto every = plan_kernel(program, "", all, diagnostics);
  const auto is_listed = [&](const std::string& name) {
    return std::any_of(listed->lowered.plans.begin(), listed->lowered.plans.end(),
                       [&](const auto& plan) { return lowering::schedule_name(plan.schedule) == name; });
  };
  std::string rare;
  for (const lowering::KernelPlan& plan : every->lowered.plans)
    if (const std::string name = lowering::schedule_name(plan.schedule); !is_listed(name)) rare = name;
  REQUIRE_FALSE(rare.empty());

  MemoryFileSystem disk;
  TestEngine builder(disk, "/built");
  CompilerOptions tuned;
  tuned.tuned = [&](const std::string&) { return rare; };
  disk.put("/b.epb", bundle_of({builder.compile(small_spec, tuned)}));
  const jit::CompiledKernelPtr found = TestEngine(disk, "", sealed()).compile();
  CHECK(found->from == jit::From::bundle);
  CHECK(found->schedule() == rare);
  REQUIRE(found->plan < found->planned.lowered.plans.size());
  CHECK(lowering::schedule_name(found->planned.lowered.plans[found->plan].schedule) == rare);
  CHECK(found->planned.lowered.plans[found->plan].recipe.to_json() == found->image.recipe.to_json());
}
