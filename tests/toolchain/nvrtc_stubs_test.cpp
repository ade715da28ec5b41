// Broken compilers: every one is an error of the environment that names what is wrong and which file.
#include <dlfcn.h>

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::toolchain;

namespace {

std::string failure(const std::string& stub) {
  Settings settings;
  settings.nvrtc = STUBS "/" + stub;
  NvrtcToolchain toolchain(real_file_system(), settings);
  REQUIRE(toolchain.identity());  // told from the files alone
  const Result<CompileOutcome> outcome = toolchain.compile({"k", "", {}, "sm_90a", {}});
  REQUIRE(!outcome);
  CHECK(outcome.error().kind == ErrorKind::environment);
  return outcome.error().message;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a library of another version than the builtins beside it is refused") {
  const std::string message = failure("mismatched");
  CHECK(has(message, STUBS "/mismatched/libnvrtc.so.13"));
  CHECK(has(message, "13.1"));
  CHECK(has(message, "13.0"));
}

TEST_CASE("an option that the library does not know is named, with path and version") {
  const std::string message = failure("old");
  CHECK(has(message, "--no-cache"));
  CHECK(has(message, STUBS "/old/libnvrtc.so.13"));
  CHECK(has(message, "13.0"));
}

TEST_CASE("a library that refuses the text without a word is broken, not the text") {
  const std::string message = failure("silent");
  CHECK(has(message, STUBS "/silent/libnvrtc.so.13"));
  CHECK(has(message, "without a log"));
  CHECK(has(message, STUBS "/silent/libnvrtc-builtins.so.13.0"));
}

TEST_CASE("a library without one of the entries is refused with the entry's name") {
  CHECK(has(failure("incomplete"), "nvrtcGetCUBIN"));
}

TEST_CASE("a process that holds another build of the builtins is refused") {
  const std::string loaded = STUBS "/loaded/libnvrtc-builtins.so.13.0";
  REQUIRE(::dlopen(loaded.c_str(), RTLD_NOW));
  const std::string message = failure("elsewhere");
  CHECK(has(message, loaded));
  CHECK(has(message, STUBS "/elsewhere/libnvrtc-builtins.so.13.0"));
  CHECK(has(message, "EPIFUSE_NVRTC"));
}
