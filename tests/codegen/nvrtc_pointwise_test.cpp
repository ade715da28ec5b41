// What NVRTC makes of kernels without gemm, under each of their plans: every launch compiles, and none spills.
#include <cstdio>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/codegen/pointwise_specs.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("kernels without gemm compile without spills") {
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  for (const PointwiseSpec& spec : pointwise_specs()) {
    const LoweredText lowered = lower_text(spec.text);
    REQUIRE(!lowered.lowered.plans.empty());
    for (const lowering::KernelPlan& plan : lowered.lowered.plans) {
      const std::string source = codegen::emit_kernel(lowered.lowered.graph, plan);
      INFO(source);
      const auto outcome = nvrtc.compile({spec.name, source, toolchain::headers_included_by(source), "sm_90a", {}});
      if (!outcome) {
        FAIL_CHECK(outcome.error().message);
        continue;
      }
      std::printf("%-20s %-12s %2zu launches %3d registers %4d spill bytes %6.0f ms\n", spec.name,
                  lowering::schedule_name(plan.schedule).c_str(), plan.recipe.steps.size(), outcome->registers,
                  outcome->spill_bytes, outcome->milliseconds);
      CHECK(outcome->spill_bytes == 0);
      CHECK(outcome->entries.size() == plan.recipe.steps.size());
    }
  }
}
