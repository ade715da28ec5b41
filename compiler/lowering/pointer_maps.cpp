#include "compiler/lowering/pointer_maps.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"

namespace epifuse::lowering {
namespace {

constexpr uint32_t block_threads = 128;
constexpr int maps_per_block = block_threads / 32;  // one warp makes one

// The fields of the struct that emit_pointer_maps spells: arrays, one element for each tensor.
class FieldWriter {
 public:
  explicit FieldWriter(RecipeStep& step) : step_(step) {}

  void add(const char* name, FieldKind kind, uint32_t size, uint32_t align, const std::string& tensor,
           const IntExpr& value, int index) {
    at_ = (at_ + align - 1) / align * align;
    const size_t element =
        static_cast<size_t>(std::count_if(step_.fields.begin(), step_.fields.end(), [&](const ParameterField& field) {
          return field.name.starts_with(fmt::format("{}.", name));
        }));
    step_.fields.push_back({fmt::format("{}.{}", name, element), kind, at_, size, tensor, value, index});
    at_ += size;
  }
  uint32_t bytes() const { return (at_ + 63) / 64 * 64; }  // the struct is aligned as its tensor maps are

 private:
  RecipeStep& step_;
  uint32_t at_ = 0;
};

}  // namespace

void add_pointer_maps(LaunchRecipe& recipe, const std::vector<PointerMap>& maps) {
  if (maps.empty()) return;
  const auto first = std::find_if(recipe.steps.begin(), recipe.steps.end(),
                                  [](const RecipeStep& s) { return s.kind == RecipeStep::Kind::launch; });
  EPIFUSE_ENSURE(first != recipe.steps.end(), "maps for a recipe without a launch");

  RecipeStep step;
  step.entry = pointer_maps_entry;
  step.block = block_threads;
  step.waits = true;
  FieldWriter fields(step);
  for (const PointerMap& map : maps) {
    recipe.maps.push_back(map.map);
    fields.add("map", FieldKind::tensor_map, tensor_map_bytes, 64, "", 0, static_cast<int>(recipe.maps.size()) - 1);
  }
  for (const PointerMap& map : maps) fields.add("pointers", FieldKind::address, 8, 8, map.map.tensor, 0, 0);
  for (const PointerMap& map : maps)
    fields.add("maps", FieldKind::address, 8, 8, std::string(workspace_name), map.workspace_offset, 0);
  for (const PointerMap& map : maps) fields.add("byte_offset", FieldKind::integer64, 8, 8, "", map.map.byte_offset, 0);
  IntExpr total = 0;
  for (const PointerMap& map : maps) {
    fields.add("count", FieldKind::integer32, 4, 4, "", map.count, 0);
    total = total + map.count;
  }
  step.parameter_bytes = fields.bytes();
  step.grid = ceil_div(total, maps_per_block) * min(first->grid, 1);
  recipe.steps.insert(first, std::move(step));
}

const RecipeStep* find_pointer_maps(const LaunchRecipe& recipe) {
  for (const RecipeStep& step : recipe.steps)
    if (step.entry == pointer_maps_entry) return &step;
  return nullptr;
}

}  // namespace epifuse::lowering
