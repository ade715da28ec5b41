#include "compiler/lowering/recipe_fields.h"

#include <algorithm>
#include <set>
#include <utility>

namespace epifuse::lowering {
namespace {

constexpr uint32_t address_bytes = 8;

uint32_t size_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::tensor_map: return tensor_map_bytes;
    case FieldKind::address:
    case FieldKind::integer64: return address_bytes;
    case FieldKind::integer32:
    case FieldKind::param: return 4;
  }
  return 0;
}

uint32_t alignment_of(FieldKind kind) { return kind == FieldKind::tensor_map ? 64 : size_of(kind); }

uint32_t rounded(uint32_t bytes, uint32_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

uint32_t end_of(const RecipeStep& step) {
  return step.fields.empty() ? 0 : step.fields.back().offset + step.fields.back().size;
}

}  // namespace

void add_field(RecipeStep& step, std::string name, FieldKind kind, std::string tensor, IntExpr value, int index) {
  const uint32_t offset = rounded(end_of(step), alignment_of(kind));
  step.fields.push_back({std::move(name), kind, offset, size_of(kind), std::move(tensor), std::move(value), index});
}

void add_address(RecipeStep& step, std::string name, std::string tensor, IntExpr offset) {
  add_field(step, std::move(name), FieldKind::address, std::move(tensor), std::move(offset));
}

void add_integer(RecipeStep& step, std::string name, IntExpr value) {
  add_field(step, std::move(name), FieldKind::integer32, "", std::move(value));
}

void close_fields(RecipeStep& step) {
  uint32_t alignment = 1;
  for (const ParameterField& field : step.fields) alignment = std::max(alignment, alignment_of(field.kind));
  step.parameter_bytes = rounded(end_of(step), alignment);
}

void add_symbols(const ir::Graph& graph, LaunchRecipe& recipe) {
  std::set<std::string> used;
  for (const RecipeTensor& tensor : recipe.tensors) {
    for (const IntExpr& extent : tensor.extents) extent.collect_symbols(used);
    tensor.group_slot.collect_symbols(used);
  }
  recipe.workspace_bytes.collect_symbols(used);
  for (const RecipeStep& step : recipe.steps) {
    step.grid.collect_symbols(used);
    for (const ParameterField& field : step.fields) field.value.collect_symbols(used);
  }
  for (const ir::Dimension& dim : graph.dims)
    if (used.count(dim.name))
      recipe.symbols.push_back({dim.name, dim.kind == ir::DimKind::fixed ? SymbolKind::fixed : SymbolKind::launch, 1});
}

}  // namespace epifuse::lowering
