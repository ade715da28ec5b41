// The parts of a launch recipe that every family of kernels writes alike: the parameter block, laid out field by field,
// and the symbols.
#pragma once

#include <string>

#include "base/launch_recipe.h"
#include "compiler/ir/graph.h"

namespace epifuse::lowering {

// Appends a field behind the last one, where its kind's alignment puts it. `tensor`, `value` and `index` mean what
// ParameterField says.
void add_field(RecipeStep& step, std::string name, FieldKind kind, std::string tensor, IntExpr value, int index = 0);

void add_address(RecipeStep& step, std::string name, std::string tensor, IntExpr offset = 0);
void add_integer(RecipeStep& step, std::string name, IntExpr value);  // integer32

// Sets parameter_bytes: the size of the struct with these fields, which is aligned as the widest of them is.
void close_fields(RecipeStep& step);

// The kernel's dimensions that extents, grids, fields and the workspace of the recipe use, as its symbols.
void add_symbols(const ir::Graph& graph, LaunchRecipe& recipe);

}  // namespace epifuse::lowering
