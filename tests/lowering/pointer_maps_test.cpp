// The launch that makes tensor maps in the workspace: where it stands among the steps, and what it is given.
#include "compiler/lowering/pointer_maps.h"

#include "tests/support/catch.h"
#include "tests/support/sample_recipe.h"

using namespace epifuse;
using lowering::PointerMap;

namespace {

// The sample kernel with w as E buffers of [N, K], seen by two maps, and with room for both behind its own workspace.
LaunchRecipe pointer_recipe() {
  LaunchRecipe r = test::sample_recipe();
  r.tensors[1].pointer_axes = 1;
  const IntExpr k = IntExpr::symbol("K"), n = IntExpr::symbol("N"), e = IntExpr::symbol("E");
  const IntExpr own = round_up(r.workspace_bytes, tensor_map_bytes);
  const TensorMapRecipe first{"w", TensorMapType::bf16, 0, {k, n}, {k * 2}, {64, 128}, {1, 1}, Swizzle::b128};
  TensorMapRecipe second = first;
  second.byte_offset = n * k;
  r.maps.erase(r.maps.begin() + 1);
  r.steps[1].fields.erase(r.steps[1].fields.begin() + 1);
  r.steps[1].fields.insert(r.steps[1].fields.begin() + 1, {"w_maps", FieldKind::address, 248, 8, "workspace", own, 0});
  lowering::add_pointer_maps(r, {{first, e, own}, {second, e, own + e * tensor_map_bytes}});
  r.workspace_bytes = own + e * (2 * tensor_map_bytes);
  return r;
}

}  // namespace

TEST_CASE("the launch that makes maps stands in front of the first launch and behind the memsets") {
  const LaunchRecipe r = pointer_recipe();
  const Status valid = r.validate();
  INFO((valid ? std::string() : valid.error().message));
  REQUIRE(valid);
  REQUIRE(r.steps.size() == 4);
  CHECK(r.steps[0].kind == RecipeStep::Kind::memset);
  CHECK(&r.steps[1] == lowering::find_pointer_maps(r));
  CHECK(r.steps[2].entry == "gemm_entry");
  CHECK(r.steps[3].entry == "finish_entry");
}

TEST_CASE("each map has a template, its pointers, its place and its offset") {
  const LaunchRecipe r = pointer_recipe();
  const RecipeStep& step = *lowering::find_pointer_maps(r);
  CHECK(step.parameter_bytes == 320);  // 2 * (128 + 8 + 8 + 8 + 4), up to a multiple of 64
  const auto field = [&](const std::string& name) -> const ParameterField& {
    for (const ParameterField& f : step.fields)
      if (f.name == name) return f;
    FAIL("no field " << name);
    throw;
  };
  CHECK(step.fields.size() == 10);
  CHECK(r.maps.at(static_cast<size_t>(field("map.1").index)).byte_offset.text() == "N * K");
  CHECK(field("map.1").offset == 128);
  CHECK(field("pointers.0").tensor == "w");
  CHECK(field("pointers.0").offset == 256);
  CHECK(field("maps.0").tensor == workspace_name);
  CHECK(field("maps.1").value == field("maps.0").value + IntExpr::symbol("E") * 128);
  CHECK(field("byte_offset.1").value.text() == "N * K");
  CHECK(field("byte_offset.0").value == IntExpr(0));
  CHECK(field("count.1").value.text() == "E");
  CHECK(field("count.1").offset == 308);
}

TEST_CASE("one warp makes a map, and none does where the kernel has nothing to do") {
  const LaunchRecipe r = pointer_recipe();
  const auto grid = [&](int64_t rows, int64_t groups) {
    const auto value = lowering::find_pointer_maps(r)->grid.evaluate([&](std::string_view name) {
      return std::optional<int64_t>(name == "M" ? rows : name == "E" ? groups : name == "sm_count" ? 132 : 64);
    });
    REQUIRE(value);
    return *value;
  };
  CHECK(grid(1000, 7) == 4);  // 14 maps, 4 in each block
  CHECK(grid(1000, 8) == 4);
  CHECK(grid(0, 8) == 0);
}

TEST_CASE("no maps, no launch") {
  LaunchRecipe r = test::sample_recipe();
  const std::string before = r.to_json();
  lowering::add_pointer_maps(r, {});
  CHECK(r.to_json() == before);
  CHECK(lowering::find_pointer_maps(r) == nullptr);
}
