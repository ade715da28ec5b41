#include "compiler/codegen/emit_pointer_maps.h"

#include <algorithm>
#include <fmt/format.h>

namespace epifuse::codegen {

std::string emit_pointer_maps(const RecipeStep& step) {
  const auto tensors = std::count_if(step.fields.begin(), step.fields.end(),
                                     [](const ParameterField& field) { return field.kind == FieldKind::tensor_map; });
  return fmt::format(
      "struct PointerMapParameters {{\n"
      "  TensorMap map[{0}];\n"
      "  void* pointers[{0}];\n"
      "  void* maps[{0}];\n"
      "  i64 byte_offset[{0}];\n"
      "  int count[{0}];\n"
      "}};\n"
      "static_assert(sizeof(PointerMapParameters) == {1}, \"the recipe's parameter block\");\n\n"
      "extern \"C\" __global__ void __launch_bounds__({2}) {3}(const __grid_constant__ PointerMapParameters p) {{\n"
      "  build_tensor_maps<{0}, {4}>(p);\n"
      "}}\n",
      tensors, step.parameter_bytes, step.block, step.entry, step.block / 32);
}

}  // namespace epifuse::codegen
