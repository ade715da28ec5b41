// What a report still has to say of a kernel that was compiled.
#include "tools/compile_kernel.h"

#include <nlohmann/json.hpp>

#include "tests/jit/support.h"

namespace epifuse::tools {
namespace {

using namespace test;

TEST_CASE("a warning that went to the log is not printed again, and JSON has it") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  engine.toolchain->say = [](int, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.spill_bytes = 8;
    outcome.notes = {"a note"};
    return {};
  };
  const jit::CompiledKernelPtr kernel = engine.compile();
  REQUIRE(kernel->image.warnings.size() == 2);
  Settings settings;
  CHECK(unsaid_warnings(*kernel, settings) == std::vector<std::string>{"a note"});
  settings.log = LogLevel::error;
  CHECK(unsaid_warnings(*kernel, settings) == kernel->image.warnings);
  const auto json = nlohmann::json::parse(kernel_json(*kernel));
  CHECK(json.at("warnings").size() == 2);
  CHECK(json.at("compiled") == true);
  CHECK(json.at("from") == "toolchain");
}

TEST_CASE("the plan that a compile has taken is found, and nothing is compiled, recorded or said for it") {
  MemoryFileSystem disk;
  Diagnostics diagnostics;
  const Program program = program_of(small_spec, diagnostics);
  std::vector<std::string> said;
  Surroundings world{{}, "", disk, [&](LogLevel, std::string_view text) { said.emplace_back(text); }};
  world.settings.cache_directory = "/cache";
  world.settings.record = "/record";
  const std::optional<PlannedKernel> planned = plan_kernel(program, "", {}, diagnostics);
  REQUIRE(planned);
  const auto taken = [&](const CompilerOptions& options = {}) {
    std::optional<TakenPlan> plan = taken_plan(*make_looking_engine(world), program, "", options, diagnostics);
    REQUIRE(plan);
    return *std::move(plan);
  };
  CHECK(!taken().compiled);
  CHECK(taken().index() == 0);
  CHECK(taken().may_be_left.ends_with("another is taken"));

  TestEngine engine(disk);
  engine.toolchain->say = [](int n, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.spill_bytes = n == 0 ? 8 : 0;
    return {};
  };
  CHECK(engine.compile()->plan == 1);
  const TakenPlan found = taken();
  REQUIRE(found.compiled);
  CHECK(found.index() == 1);
  CHECK(found.why == "better ones were refused");
  CHECK(found.may_be_left.empty());
  CHECK(found.compiled->from == jit::From::disk);
  CHECK(plan_stage(Stage::plan, found.kernel(), found.index()) == plan_stage(Stage::plan, *planned, 1));
  CHECK(said.empty());
  CHECK(!disk.status("/record").exists);

  CompilerOptions asked;
  asked.schedule = found.compiled->schedule();
  CHECK(taken(asked).may_be_left.empty());
  CHECK(taken(asked).why == "asked for");
}

}  // namespace
}  // namespace epifuse::tools
