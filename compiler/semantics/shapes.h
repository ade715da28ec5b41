// Internal to the resolver: the arithmetic of shapes. The names of a result follow from ir::Graph::union_of; here is
// also their order, which `split` and `join` need: they work on the last dimension.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace epifuse::semantics {

// Whether one of the shape's names belongs to the grouped dimension `dim` or to one that aligns it.
bool has_grouped(const ir::Graph& graph, const ir::Shape& shape, ir::DimId dim);

// The grouped dimension of an extent that is one, or is aligned to one; -1: none.
ir::DimId grouped_dim(const ir::Graph& graph, const ir::Extent& extent);

// The shape of a pointwise operation. Names come in the order of the operand that has them all; otherwise in the order
// of `a`, each name that only `b` has before the next one they share: [N] and [S, N] give [S, N].
ir::Shape merge(const ir::Graph& graph, const ir::Shape& a, const ir::Shape& b);

using ir::half;
using ir::twice;

// `shape` with `from` replaced by `to`.
ir::Shape replaced(const ir::Graph& graph, ir::Shape shape, const ir::Extent& from, const ir::Extent& to);
ir::Shape without(const ir::Graph& graph, const ir::Shape& shape, const ir::Extent& extent);

// Whether an extent is fixed at compile time, bound or not.
bool is_fixed(const ir::Graph& graph, const ir::Extent& extent);

}  // namespace epifuse::semantics
