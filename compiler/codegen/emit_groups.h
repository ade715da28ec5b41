// How groups are described to the templates, and the entries that store where each of them ends.
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// "Groups::slot_counts": how a grouped dimension's sizes are given.
std::string spell_groups(const ir::Dimension& grouped);

// For the launches of lowering::group_ends_steps: what they include, each with its line break, and their entries; both
// empty where no ends are stored.
std::string group_ends_includes(const ir::Graph& graph);
std::string group_ends_entries(const ir::Graph& graph);

}  // namespace epifuse::codegen
