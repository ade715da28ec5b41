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

}  // namespace
}  // namespace epifuse::tools
