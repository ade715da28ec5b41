// What a recipe says of groups: how the caller describes them, and the launches that store where each of them ends
// (`out ends : i32[E] = P.ends`) beside a kernel's main launch.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Rows of a slot of a grouped dimension that has them: start(e) = e * it. A `dyn` that stands in no buffer follows from
// the capacity, which is then a whole number of slots.
IntExpr slot_rows(const ir::Graph& graph, ir::DimId grouped);

// False, with a diagnostic, where groups are too far apart for what a recipe can say.
bool check_groups(const ir::Graph& graph, Diagnostics& diagnostics);

// Fills in what the tensor of a grouped dimension's sizes says beyond its extents: alignment, or slots.
void describe_groups(const ir::Graph& graph, ir::DimId grouped, RecipeTensor& sizes);
void describe_groups(const ir::Graph& graph, const std::string& dimension, RecipeTensor& sizes);  // by its name

bool is_group_ends(const ir::Graph& graph, const ir::Output& output);

// The grouped dimension whose groups' ends such an output holds, of itself or of an aligned form.
ir::DimId grouped_of_ends(const ir::Graph& graph, const ir::Output& output);

// "kernel_NAME_ends_OUTPUT", and one launch for each such output.
std::string group_ends_entry(const ir::Graph& graph, const ir::Output& output);
std::vector<RecipeStep> group_ends_steps(const ir::Graph& graph);

}  // namespace epifuse::lowering
