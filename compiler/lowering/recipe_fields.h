// The parameter block of a launch, laid out field by field.
#pragma once

#include <string>

#include "base/launch_recipe.h"

namespace epifuse::lowering {

// Appends a field behind the last one, where its kind's alignment puts it. `tensor`, `value` and `index` mean what
// ParameterField says.
void add_field(RecipeStep& step, std::string name, FieldKind kind, std::string tensor, IntExpr value, int index = 0);

void add_address(RecipeStep& step, std::string name, std::string tensor, IntExpr offset = 0);
void add_integer(RecipeStep& step, std::string name, IntExpr value);  // integer32

// Sets parameter_bytes: the size of the struct with these fields, which is aligned as the widest of them is.
void close_fields(RecipeStep& step);

}  // namespace epifuse::lowering
