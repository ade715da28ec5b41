// What NVRTC makes of kernels without gemm, under each of their plans: every launch compiles, and none spills.
#include <cstdio>
#include <optional>
#include <set>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/lowering/unfuse.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/codegen/contracted_specs.h"
#include "tests/codegen/format_specs.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct NamedKernel {
  std::string name;
  LoweredText lowered;
};

// Of `family` alone, if it is given.
void compile_all(const std::vector<NamedKernel>& kernels, std::optional<lowering::Family> family = std::nullopt) {
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  for (const auto& [name, lowered] : kernels) {
    REQUIRE(!lowered.lowered.plans.empty());
    for (const lowering::KernelPlan& plan : lowered.lowered.plans) {
      if (family && plan.schedule.family != *family) continue;
      const std::string source = codegen::emit_kernel(lowered.lowered.graph, plan);
      INFO(source);
      const auto outcome = nvrtc.compile({name, source, toolchain::headers_included_by(source), "sm_90a", {}});
      if (!outcome) {
        FAIL_CHECK(outcome.error().message);
        continue;
      }
      std::printf("%-20s %-12s %2zu launches %3d registers %4d spill bytes %6.0f ms\n", name.c_str(),
                  lowering::schedule_name(plan.schedule).c_str(), plan.recipe.steps.size(), outcome->registers,
                  outcome->spill_bytes, outcome->milliseconds);
      CHECK(outcome->spill_bytes == 0);
      CHECK(outcome->entries.size() == plan.recipe.steps.size());
    }
  }
}

void compile_all(const std::vector<PointwiseSpec>& specs, std::optional<lowering::Family> family = std::nullopt) {
  std::vector<NamedKernel> kernels;
  for (const PointwiseSpec& spec : specs) kernels.push_back({spec.name, lower_text(spec.text)});
  compile_all(kernels, family);
}

}  // namespace

TEST_CASE("kernels without gemm compile without spills") { compile_all(pointwise_specs()); }

// Of each kind of launch one: the tiles of the pass family are tested elsewhere.
TEST_CASE("launches that quantise or rotate compile without spills") {
  const std::set<std::string> names = {"fp8_squares", "nv_rows", "tiles_of_batches", "random_batches", "rotations"};
  std::vector<PointwiseSpec> specs;
  for (const PointwiseSpec& spec : format_specs())
    if (names.count(spec.name) != 0) specs.push_back(spec);
  REQUIRE(specs.size() == names.size());
  compile_all(specs, lowering::Family::pointwise);
}

TEST_CASE("stages behind a contraction of groups compile without spills") {
  std::vector<NamedKernel> kernels;
  for (const std::string& text : {contracted_specs()[0], contracted_specs()[3], contracted_across()})
    for (lowering::UnfusedStage& stage : lowering::unfuse(simplified(resolve_text(text))).stages)
      if (stage.output >= 0) kernels.push_back({stage.graph.name, lower_graph(stage.graph)});
  compile_all(kernels);
}
