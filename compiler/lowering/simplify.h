// Algebra on the graph that changes no result: left-out inputs become numbers, operations on numbers are done, equal
// nodes become one, and what no output needs goes away.
#pragma once

#include "compiler/ir/graph.h"

namespace epifuse::lowering {

// Left-out inputs as numbers, left-out outputs gone. Indices of inputs stay as they are.
ir::Graph apply_left_out(ir::Graph graph);

// Arithmetic on numbers (each step rounded to f32, as the kernel would), and what algebra.h has. An output that is
// reduced keeps the names of its value.
ir::Graph fold(ir::Graph graph);

// One node for equal operations on equal arguments; nodes that no output needs removed.
ir::Graph merge_and_prune(ir::Graph graph);

}  // namespace epifuse::lowering
