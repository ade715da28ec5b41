// The entry that makes tensor maps, through NVRTC, beside another entry of the same text.
#include <cstdio>

#include "compiler/codegen/emit_pointer_maps.h"
#include "compiler/lowering/pointer_maps.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/support/catch.h"

using namespace epifuse;

namespace {

// A kernel that loads a box through a map of the workspace, so that the consumer's side is compiled as well.
constexpr auto consumer =
    "struct Parameters { void* maps; float* out; };\n"
    "extern \"C\" __global__ void __launch_bounds__(32) consumer(const __grid_constant__ Parameters p) {\n"
    "  __shared__ __align__(1024) float box[1024];\n  __shared__ __align__(8) u64 barrier;\n"
    "  const u32 full = ptx::shared_address(&barrier);\n"
    "  const TensorMap& map = ptx::tensor_map_at(p.maps, blockIdx.x);\n"
    "  if (threadIdx.x == 0) {\n"
    "    ptx::mbarrier_init(full, 1);\n    ptx::fence_mbarrier_init();\n    ptx::tensor_map_acquire(&map);\n"
    "    ptx::mbarrier_arrive_expect(full, sizeof box);\n"
    "    ptx::tma_load_2d(ptx::shared_address(box), map, full, 0, 0);\n  }\n  __syncthreads();\n"
    "  ptx::mbarrier_wait(full, 0);\n  p.out[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x];\n}\n";

// `count` tensors of E buffers each.
RecipeStep maps_step(int count) {
  LaunchRecipe recipe;
  recipe.steps.emplace_back().entry = "consumer";
  recipe.steps.back().grid = 1;
  const IntExpr e = IntExpr::symbol("E");
  std::vector<lowering::PointerMap> maps;
  for (int i = 0; i < count; ++i)
    maps.push_back({{"w", TensorMapType::f32, 0, {32, 32}, {128}, {32, 32}, {1, 1}, Swizzle::none}, e, e * (128 * i)});
  lowering::add_pointer_maps(recipe, maps);
  return *lowering::find_pointer_maps(recipe);
}

}  // namespace

TEST_CASE("the entry that makes tensor maps compiles for any number of tensors") {
  static toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  for (const int tensors : {1, 3}) {
    const RecipeStep step = maps_step(tensors);
    const std::string source = "#include \"ptx/mbarrier.cuh\"\n#include \"ptx/tma.cuh\"\n#include \"" +
                               std::string(codegen::pointer_maps_header) + "\"\n\nusing namespace epifuse;\n\n" +
                               codegen::emit_pointer_maps(step) + consumer;
    const auto outcome = nvrtc.compile({"maps", source, toolchain::headers_included_by(source), "sm_90a", {}});
    INFO(source << (outcome ? std::string() : outcome.error().message));
    REQUIRE(outcome);
    INFO(outcome->log);
    REQUIRE(outcome->entries.size() == 2);
    CHECK((outcome->entries[0].name == step.entry || outcome->entries[1].name == step.entry));
    CHECK(outcome->spill_bytes == 0);
    size_t replaced = 0;
    for (size_t at = 0; (at = outcome->ptx.find("tensormap.replace.tile.global_address", at)) != std::string::npos;
         ++at)
      ++replaced;
    CHECK(replaced == static_cast<size_t>(tensors));
  }
}
