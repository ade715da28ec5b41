// The reference kernel's text compiles for every operand type, as a kernel that the runtime can load. Its numbers are
// judged on a GPU (tests/gpu), and in every run by itself.
#include "jit/reference_gemm.h"

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/jit/support.h"

using namespace epifuse;

TEST_CASE("the recipe is sound") {
  const auto made = jit::reference_gemm_text(Storage::bf16, Storage::f32, Target{});
  const Status valid = made.recipe.validate();
  INFO((valid ? std::string() : valid.error().message));
  CHECK(valid);
}

TEST_CASE("the text compiles for every type of operand", "[nvrtc]") {
  const auto settings = read_settings();
  REQUIRE(settings);
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *settings);
  if (const auto found = nvrtc.identity(); !found) {
    WARN("SKIP: " << found.error().message);
    return;
  }
  const Storage types[] = {Storage::f32, Storage::bf16, Storage::f16, Storage::e4m3, Storage::e5m2};
  for (size_t i = 0; i < std::size(types); ++i) {
    const auto made = jit::reference_gemm_text(types[i], types[(i + 1) % std::size(types)], Target{});
    const auto outcome = nvrtc.compile(made.request);
    INFO((outcome ? outcome->log : outcome.error().message));
    REQUIRE(outcome);
    CHECK(outcome->spill_bytes == 0);
    REQUIRE(outcome->entries.size() == 1);
    CHECK(outcome->entries[0].name == made.recipe.steps[0].entry);
  }
}
