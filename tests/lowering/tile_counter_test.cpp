// What a dynamic schedule adds to a plan: a counter in the workspace, a launch that clears it, and room in shared
// memory where the roles of a CTA are told their tiles.
#include "compiler/lowering/tile_counter.h"

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

std::vector<std::string> entries(const KernelPlan& plan) {
  std::vector<std::string> names;
  for (const RecipeStep& step : plan.recipe.steps) names.push_back(step.entry);
  return names;
}

const ParameterField* find_counter(const RecipeStep& step) {
  for (const ParameterField& field : step.fields)
    if (field.name == "tile_counter") return &field;
  return nullptr;
}

// With maps of pointers in front, and a sum that is finished behind.
const std::string all_launches =
    "kernel test {\n dim E = 3, K = 64, N = 128\n group M by E\n in x : bf16[M, K]\n in w : bf16[E][N, K]\n"
    " h = gemm(x, w)\n out y : bf16[M, N] = h\n out s : f32[M] = sum(h)\n}";

}  // namespace

TEST_CASE("the counter is cleared in front of the launch that it deals tiles out for") {
  const LoweredText result = lower_text(all_launches, "pingpong 128x64 dynamic");
  const KernelPlan& plan = result.plan();
  using Names = std::vector<std::string>;
  CHECK(entries(plan) == Names{"pointer_maps", "kernel_test_clear", "kernel_test", "kernel_test_finish_s"});
  const RecipeStep &clear = plan.recipe.steps[1], &gemm = plan.recipe.steps[2];
  CHECK(lowering::find_clearing_step(plan) == &clear);
  CHECK(clear.grid.text() == min(gemm.grid, 1).text());  // nothing to do, nothing to clear
  for (const RecipeStep& step : plan.recipe.steps) CHECK(step.waits);

  const ParameterField *cleared = find_counter(clear), *used = find_counter(gemm);
  REQUIRE(cleared);
  REQUIRE(used);
  const lowering::WorkspaceRegion& region = plan.region("tile counter");
  for (const ParameterField* field : {cleared, used}) {
    CHECK(field->kind == FieldKind::address);
    CHECK(field->tensor == workspace_name);
    CHECK(field->value.text() == region.offset.text());
  }
  for (const lowering::WorkspaceRegion& other : plan.workspace)
    CHECK((other.name == "tile counter" || other.offset.text() != region.offset.text()));
}

TEST_CASE("a static schedule has no counter, and the same tile otherwise") {
  const LoweredText fixed = lower_text(all_launches, "pingpong 128x64"),
                    dealt = lower_text(all_launches, "pingpong 128x64 dynamic");
  CHECK(lowering::find_clearing_step(fixed.plan()) == nullptr);
  CHECK(find_counter(fixed.plan().recipe.steps[1]) == nullptr);
  CHECK(lowering::dealt_tiles_bytes(fixed.plan().schedule) == 0);
  CHECK(dealt.plan().shared_bytes == fixed.plan().shared_bytes + lowering::dealt_tiles_bytes(dealt.plan().schedule));
  CHECK(dealt.plan().schedule.stages == fixed.plan().schedule.stages);
}
