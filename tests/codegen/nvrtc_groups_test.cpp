// What NVRTC makes of kernels whose groups are described in every way: slots, alignments that are no power of two,
// wide sizes, and ends that are stored beside a gemm.
#include <cstdio>
#include <fmt/format.h>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The launches of the plan's recipe are the entries of its cubin, and none of them spills.
void check(toolchain::NvrtcToolchain& nvrtc, const std::string& text, std::string_view schedule) {
  const LoweredText result = lower_text(text, schedule);
  const lowering::KernelPlan& plan = result.plan();
  const std::string source = codegen::emit_kernel(result.lowered.graph, plan);
  INFO(source);
  const auto compiled = nvrtc.compile({"test", source, toolchain::headers_included_by(source), "sm_90a", {}});
  if (!compiled) FAIL(compiled.error().message);
  CHECK(compiled->spill_bytes == 0);
  for (const RecipeStep& step : plan.recipe.steps) {
    INFO(step.entry);
    CHECK(std::any_of(compiled->entries.begin(), compiled->entries.end(),
                      [&](const auto& entry) { return entry.name == step.entry; }));
  }
}

}  // namespace

TEST_CASE("kernels of every description of groups compile") {
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  const std::string head = "kernel test {\n dim E = 3, K = 64, N = 64\n dyn C\n ",
                    aligned = "\n group P = M align 48\n";
  const std::string gradient = " in g : bf16[M, N]\n in x : bf16[M, K]\n h = gemm(g, x)\n";
  check(nvrtc,
        head + "group M by E counts slot C" + aligned +
            " in x : bf16[M, K]\n in w : bf16[E, N, K]\n h = gemm(x, w)\n out y : bf16[N, P] = h\n"
            " out r : f32[M] = sum(h)\n out s : f32[E, N] += sum(h)\n out e : i32[E] = P.ends\n}",
        "pingpong 128x64");
  check(nvrtc,
        head + "group M by E ends i64 slot C" + aligned + gradient +
            " out w : f32[E, N, K] += h\n out a : f32[E] = amax(h)\n out e : i32[E] = P.ends\n}",
        "pingpong 128x64");
  check(nvrtc,
        head + "group M by E counts i64 slot 2*C" + aligned +
            " in x : bf16[M, N]\n out y : bf16[N, P] = x\n out s : f32[E, N] = sum(x)\n out e : i32[E] = P.ends\n}",
        "");
  check(nvrtc,
        head + "group M by E slot C" + aligned +
            " in x : bf16[M, N]\n out y : bf16[N, P] = x\n out s : f32[E, N] = sum(x)\n out e : i32[E] = P.ends\n}",
        "pointwise");
  check(nvrtc,
        "kernel test {\n dim E = 1, K = 64, N = 64\n group M by E counts i64 align 96" + aligned + gradient +
            " out w : f32[E, N, K] = h\n out e : i32[E] = P.ends\n}",
        "pingpong 128x64");
}
