// The unfused form of a kernel: every operation as a kernel of its own, over intermediate tensors in memory. It is what
// a fused kernel is compared with, and what runs when the fused one is in doubt.
//
// Each stage is a graph with one output that the ordinary pipeline compiles:
//   a gemm      from the original operands (halves of inputs stay halves), stored as f32
//   another op  from inputs and intermediates, stored as f32; rows that an index picks keep the type of their input, so
//               that a gemm can take them
//   an output   from the value it stores: rounding, quantising, transposing, reducing and += happen here alone, and so
//               does what becomes of an empty group of a contraction: intermediates hold what is computed of no terms
// Numbers, params and inputs are read where they are used. An intermediate lies over its value's names, aligned
// dimensions as the ones they align; a value over E alone has E elements.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace epifuse::lowering {

struct UnfusedStage {
  ir::Graph graph;        // "KERNEL_NAME"; its only output is the tensor it makes
  ir::NodeId value = -1;  // in Unfused::graph: what it makes; of an output, what it stores
  int output = -1;        // into Unfused::graph's outputs; -1: an intermediate
};

// A tensor between stages: written by one, read by later ones.
struct Intermediate {
  ir::Tensor tensor;  // over the dimensions of Unfused::graph
  ir::NodeId value = -1;
  int made_by = -1, last_read_by = -1;  // into Unfused::stages
};

struct Unfused {
  ir::Graph graph;  // what was cut
  std::vector<UnfusedStage> stages;
  std::vector<Intermediate> intermediates;
};

// Cuts a graph behind the passes (no grad, nothing left out among the outputs). A value's name in the spec is that of
// its intermediate, unless a buffer, a param or a dimension is called so.
Unfused unfuse(ir::Graph graph);

// Keeps the dimensions that a tensor or a value of the graph lies over, and those that they refer to, in their order.
void drop_unused_dims(ir::Graph& graph);

}  // namespace epifuse::lowering
