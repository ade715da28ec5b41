// The buffers that a caller binds for a kernel, by the names they have everywhere (language.md, design.md §8): `y` and
// `y.scale` of a scaled tensor, `M.ends` or `M.counts` of a group.
#pragma once

#include <string>
#include <vector>

#include "base/integer_expression.h"
#include "base/launch_recipe.h"
#include "compiler/ir/graph.h"

namespace epifuse::ir {

struct Buffer {
  std::string name;    // "y.scale"
  std::string tensor;  // "y"; for group sizes the dimension, "M"
  Storage storage = Storage::f32;
  TensorRole role = TensorRole::input;
  std::vector<IntExpr> extents;  // elements, in memory order, over the names of dimensions
  bool optional = false;         // the caller may leave it out
};

// In the order of the spec: group sizes, inputs, outputs; a scale behind its codes. What was left out is not listed.
std::vector<Buffer> buffers(const Graph& graph);

// An extent as an expression over dimension names. An aligned dimension P = M align A has room for M + E*(A-1) rows,
// rounded down to A (S6).
IntExpr extent_expression(const Graph& graph, const Extent& extent);

// Extents of the scale buffer of a scaled tensor (S7): the stored shape with blocked axes divided, rounded up; for
// columns_tma the last two swapped and the pitch a multiple of 4; for blocked_128x4 one axis of bytes (numerics.md §6.2).
std::vector<IntExpr> scale_extents(const Graph& graph, const Tensor& tensor);

// "M.ends" or "M.counts".
std::string group_sizes_name(const Graph& graph, DimId grouped);

}  // namespace epifuse::ir
