#include "compiler/codegen/parameters.h"

#include <fmt/format.h>

namespace epifuse::codegen {
namespace {

std::string_view spell_kind(FieldKind kind) {
  switch (kind) {
    case FieldKind::tensor_map: return "TensorMap";
    case FieldKind::address: return "void*";
    case FieldKind::integer32: return "int";
    case FieldKind::integer64: return "i64";
    case FieldKind::param: return "float";
  }
  return "";
}

}  // namespace

std::string spell_parameters(const RecipeStep& step, std::string_view struct_name) {
  std::string out = fmt::format("struct {} {{\n", struct_name);
  for (size_t i = 0; i < step.fields.size(); ++i) {
    const ParameterField& field = step.fields[i];
    std::string name = field.name;
    if (const size_t dot = name.find('.'); dot != std::string::npos) {
      size_t count = 1;
      while (i + 1 < step.fields.size() && step.fields[i + 1].name.starts_with(name.substr(0, dot + 1))) ++count, ++i;
      name = fmt::format("{}[{}]", name.substr(0, dot), count);
    }
    out += fmt::format("  {} {};\n", spell_kind(field.kind), name);
  }
  return out + fmt::format("}};\nstatic_assert(sizeof({}) == {}, \"the recipe's parameter block\");\n\n", struct_name,
                           step.parameter_bytes);
}

}  // namespace epifuse::codegen
