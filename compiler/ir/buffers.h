// The buffers of a resolved kernel: what a caller binds, by the names that are the same everywhere (`y`, `y.scale`,
// `M.ends`), with extents as expressions over the kernel's dimensions.
//
// Symbols are the names of dims, of dyns, and of grouped dimensions, which stand for their capacity. An aligned
// dimension is no symbol: its capacity follows, M + E*(A-1) rounded down to A.
//
// Scales, from data [.., R, C] with blocks along C (S7; block sizes b, and a across for types of two-dimensional
// blocks):
//   rows           the data's shape with blocked dimensions divided, rounded up
//   columns_tma    the same with the last two swapped, and the last rounded up to a multiple of 4
//   blocked_128x4  tiles of 512 bytes, 128 rows by 4 blocks: [.., tile rows, tile columns, 512]. Rows in groups: each
//                  group begins on a tile row, so there is room for as many as any sizes need. Tokens along the blocks:
//                  each group is a matrix of its own, [tile columns of all groups, tile rows, 512]. With `along` the
//                  second-last dimension, R and C change places.
#pragma once

#include <string>
#include <vector>

#include "base/integer_expression.h"
#include "base/launch_recipe.h"
#include "compiler/ir/graph.h"

namespace epifuse::ir {

// A tile of blocked_128x4: 128 rows by 4 blocks, a byte each. The pitch of columns_tma is a multiple of this.
inline constexpr int64_t scale_tile_rows = 128, scale_tile_columns = 4, scale_tile_bytes = 512, columns_tma_pitch = 4;

struct Buffer {
  std::string name;    // "y.scale"
  std::string tensor;  // "y"; of group sizes the dimension, "M"
  TensorRole role = TensorRole::input;
  Storage storage = Storage::f32;
  std::vector<IntExpr> extents;  // memory order; e2m1 counts elements, two to a byte
  int pointer_axes = 0;          // > 0: a device array of pointers to buffers of the other extents
  bool is_scale = false;
  bool optional = false;  // may be left out
};

// Inputs in the order of the spec, each followed by its scales; the sizes of every grouped dimension that stands in a
// tensor or in stored ends; outputs. What was left out is not listed.
std::vector<Buffer> buffers(const Graph& graph);

// Extents of `y.scale` for data of these extents.
std::vector<IntExpr> scale_extents(const Graph& graph, const Tensor& tensor, const std::vector<IntExpr>& data);
// The same in numbers; `sizes` has those of the symbols above. Errors (user): a size beyond 64 bits.
Result<std::vector<int64_t>> scale_extents(const Graph& graph, const Tensor& tensor, const std::vector<int64_t>& data,
                                           const IntExpr::Lookup& sizes);

// The number of elements of an extent as an expression over the symbols above.
IntExpr extent_expression(const Graph& graph, const Extent& extent);

// Of a grouped dimension in slots, when `unit` is the number of the slot's dimension (1: it has none): why a kernel
// cannot count the rows of so many groups; empty: it can, or there are no slots.
std::string slots_fault(const Graph& graph, const Dimension& dim, int64_t groups, int64_t unit);

// "M.ends" or "M.counts".
std::string group_sizes_name(const Graph& graph, DimId grouped);

}  // namespace epifuse::ir
