// The parameter struct of a launch, spelled from the fields of its recipe.
#pragma once

#include <string>
#include <string_view>

#include "base/launch_recipe.h"

namespace epifuse::codegen {

// The struct, and the assertion that it is as large as the recipe says. Neighbours "b.0", "b.1" become one array.
std::string spell_parameters(const RecipeStep& step, std::string_view struct_name);

}  // namespace epifuse::codegen
