// What NVRTC makes of tiles of every width: no spills, no waiting for single wgmmas, and wgmmas of that width.
#include <cstdio>
#include <fmt/format.h>
#include <thread>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Compiled {
  std::string name;
  int tile_columns;
  std::optional<Result<toolchain::CompileOutcome>> outcome;
};

// Tiles of a kernel, on two threads.
std::vector<Compiled> compile_tiles(toolchain::NvrtcToolchain& nvrtc, const std::string& spec,
                                    bool (*wanted)(const lowering::Schedule&)) {
  LoweredText tiles = lower_tiles(spec);
  std::erase_if(tiles.lowered.plans, [&](const lowering::KernelPlan& plan) { return !wanted(plan.schedule); });
  std::vector<Compiled> list;
  std::vector<std::string> sources;
  for (const lowering::KernelPlan& plan : tiles.lowered.plans) {
    list.push_back({lowering::schedule_name(plan.schedule), plan.schedule.tile_columns, {}});
    sources.push_back(codegen::emit_kernel(tiles.lowered.graph, plan));
  }
  const auto work = [&](size_t first) {
    for (size_t i = first; i < list.size(); i += 2)
      list[i].outcome = nvrtc.compile({"test", sources[i], toolchain::headers_included_by(sources[i]), "sm_90a", {}});
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  return list;
}

void check_tiles(const std::string& type, size_t tiles, bool (*wanted)(const lowering::Schedule&)) {
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  const std::vector<Compiled> list =
      compile_tiles(nvrtc,
                    fmt::format("kernel test {{\n dim E = 8, K = 4096, N = 3840\n group M by E\n in x : {0}[M, K]\n"
                                " in w : {0}[E, N, K]\n out y : {0}[M, N] = gemm(x, w)\n}}",
                                type),
                    wanted);
  CHECK(list.size() == tiles);
  for (const Compiled& compiled : list) {
    INFO(compiled.name);
    if (!*compiled.outcome) {
      FAIL_CHECK(compiled.outcome->error().message);
      continue;
    }
    const toolchain::CompileOutcome& outcome = **compiled.outcome;
    CHECK(outcome.spill_bytes == 0);
    CHECK(!outcome.wgmma_serialized);
    CHECK(outcome.ptx.find(fmt::format("m64n{}k16.f32.{}.{}", compiled.tile_columns, type, type)) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("tiles of every width compile without spills") {
  check_tiles("bf16", 10, [](const lowering::Schedule&) { return true; });
  check_tiles("f16", 2, [](const lowering::Schedule& s) {
    return !s.cooperative && (s.tile_columns == 96 || s.tile_columns == 160);
  });
}
