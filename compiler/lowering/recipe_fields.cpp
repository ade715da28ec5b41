#include "compiler/lowering/recipe_fields.h"

#include <algorithm>
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

}  // namespace epifuse::lowering
