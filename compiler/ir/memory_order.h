// The order in which a value's names lie in memory where the spec does not say one: of the intermediate tensors of an
// unfused kernel, and of tapped values.
#pragma once

#include "compiler/ir/graph.h"

namespace epifuse::ir {

// Of a gemm [.., rows, columns]: what both operands have (or stands for it) in front, then the names of the operand
// that gives the rows: the one with a size that only a launch knows, of two equal ones the first. Of another value the
// order of its shape, but for the columns (the last name of fixed size), which come last. Aligned dimensions are taken
// as the ones they align.
Shape memory_order(const Graph& graph, NodeId value);

}  // namespace epifuse::ir
