// Simplification of one node, given its arguments. Every rule keeps the f32 that the kernel computes, bit for bit but
// for the sign of a NaN: x + 0 stays (it makes -0 of 0), x - x and 0 * x stay (NaN), and the order of roundings is
// kept.
#pragma once

#include <optional>

#include "compiler/lowering/node_builder.h"

namespace epifuse::lowering {

// Gives the node that `node` is equal to, or leaves in `node` what computes the same with less. Names of the shape that
// nothing needs may go.
std::optional<ir::NodeId> simplify_node(NodeBuilder& nodes, ir::Node& node);

}  // namespace epifuse::lowering
