// Algebra on the graph that changes no result: left-out inputs become numbers, operations on numbers are done, equal
// nodes become one, and what no output needs goes away.
#pragma once

#include "compiler/ir/graph.h"

namespace epifuse::lowering {

// Left-out inputs as numbers, left-out outputs gone. Indices of inputs stay as they are.
ir::Graph apply_left_out(ir::Graph graph);

// Folds x*1, x/1, -(-x), select and arithmetic on numbers (each step rounded to f32, as the kernel would).
ir::Graph fold(ir::Graph graph);

// One node for equal operations on equal arguments; nodes that no output needs removed.
ir::Graph merge_and_prune(ir::Graph graph);

}  // namespace epifuse::lowering
