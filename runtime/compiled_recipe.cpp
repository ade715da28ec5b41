// Giving every name of a recipe its slot, and compiling its expressions over the slots.
#include "runtime/compiled_recipe.h"

#include <fmt/format.h>
#include <utility>

#include "base/recipe_limits.h"

namespace epifuse::runtime {

CompiledRecipe::CompiledRecipe(LaunchRecipe from) : recipe(std::move(from)) {
  for (const RecipeSymbol& symbol : recipe.symbols) slot_names.push_back(symbol.name);
  for (const RecipeTensor& tensor : recipe.tensors) {
    tensors.push_back({{}, {}, static_cast<int>(slot_names.size())});
    for (size_t axis = 0; axis + 1 < tensor.extents.size(); ++axis) {
      slot_names.push_back(fmt::format("{}.stride{}", tensor.name, axis));
    }
  }
  sm_count_slot = static_cast<int>(slot_names.size());
  slot_names.emplace_back(multiprocessors_name);

  const IntProgram::SlotOf slot_of = [this](std::string_view name) { return slot(name); };
  const auto program = [&](const IntExpr& e) { return IntProgram(e, slot_of); };
  const auto programs = [&](const std::vector<IntExpr>& list) {
    std::vector<IntProgram> out;
    for (const IntExpr& e : list) out.push_back(program(e));
    return out;
  };

  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].extents = programs(recipe.tensors[i].extents);
    tensors[i].group_slot = program(recipe.tensors[i].group_slot);
  }
  for (const TensorMapRecipe& map : recipe.maps) {
    maps.push_back({tensor_index(map.tensor), program(map.byte_offset), programs(map.extents), programs(map.strides)});
  }
  for (const RecipeStep& step : recipe.steps) {
    Step& compiled = steps.emplace_back();
    compiled.grid = program(step.grid);
    compiled.workspace_offset = program(step.workspace_offset);
    compiled.bytes = program(step.bytes);
    for (const ParameterField& field : step.fields) {
      const int tensor = field.kind == FieldKind::address ? tensor_index(field.tensor) : -1;
      compiled.fields.push_back({tensor, program(field.value)});
    }
  }
  workspace_bytes = program(recipe.workspace_bytes);
}

int CompiledRecipe::tensor_index(std::string_view name) const {
  for (size_t i = 0; i < recipe.tensors.size(); ++i) {
    if (recipe.tensors[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::optional<int> CompiledRecipe::slot(std::string_view name) const {
  for (size_t i = 0; i < slot_names.size(); ++i) {
    if (slot_names[i] == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace epifuse::runtime
