// Symbolic differentiation: gradients as ordinary nodes (language.md V5).
#pragma once

#include "compiler/ir/graph.h"

namespace epifuse::lowering {

// The graph with every grad node replaced by pointwise operations, split and join. A gradient keeps the names of its
// grad node: nothing is summed. It holds what the resolver promises: a gradient meets no gemm, gather or rotation.
ir::Graph differentiate(ir::Graph graph);

}  // namespace epifuse::lowering
