// The launches of a kernel without gemm: the "pointwise" family, generic over any graph.
//
// A launch walks items over the stored elements of one output. An item is a run of elements along one axis, a block of
// a scaled type (or neighbouring ones), or one reduced element; a thread (or a warp) takes an item, then the one a grid
// further on. Which rows of a grouped dimension exist is read on the device only: items cover the capacity.
//
// A value is a straight list of instructions over coordinates: integers that say where its inputs lie. Splits, gathers,
// group counts and aligned dimensions change only coordinates, so that everything in between is one element from one
// element. Only a rotation needs neighbours: it is a launch of its own, whose result later ones read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/integer_expression.h"
#include "compiler/ir/graph.h"

namespace epifuse::lowering {

//   elements  `width` neighbours along the last stored dimension for each item
//   clear     one tile of 512 scales of the layout blocked_128x4 for each item, set to zero; the blocks come behind
//   blocks    blocks of a scaled type for each item: their scales and their codes
//   reduce    one reduced element (or eight neighbours) for each item; where it is split, one partial of each
//   finish    adds the partials of an element in their order
//   ends      where a group ends, its gap included
//   rotate    sixteen elements of a rotation for each item, into the workspace
enum class PointwiseKind { elements, clear, blocks, reduce, finish, ends, rotate };

// A dimension that is walked. `place` is -1 where it is counted from 0 to its size; else it is a grouped dimension or
// an aligned form of it, whose places are searched for the row that lies there.
struct PointwiseAxis {
  ir::Extent name;
  ir::DimId place = -1;
  ir::DimId grouped = -1;  // of `place`
  int64_t alignment = 1;   // of `place`
  int step = 1;            // elements of an item along it
};

struct PointwiseCoordinate {
  //   axis      the place along axis `axis`, in the grouped dimension itself where it is one
  //   group     the group of that place
  //   group_of  the group of row `from` of the grouped dimension `dim`
  //   aligned   the place in the aligned dimension `dim` of row `from`, which is in group `group`
  //   split     of a whole, from that of its part `part`
  //   join      of a part, from that of the whole
  //   part      which part (0, 1) of a whole it lies in
  //   gathered  the integer read from an input, -1 where it is negative or too large
  //   clamped   `from`, but 0 where it is negative
  enum class Kind { axis, group, group_of, aligned, split, join, part, gathered, clamped };
  Kind kind = Kind::axis;
  int axis = -1;
  int from = -1;
  int group = -1;          // aligned: the coordinate of the group
  ir::DimId dim = -1;      // group_of, aligned
  ir::Extent whole;        // split, join, part: the doubled dimension; gathered: the dimension it must lie in
  int64_t piece = 0;       // … dealt out in pieces of so many; 0: halves
  int part = 0;            // split
  ir::InputId input = -1;  // gathered: read where its axes have the coordinates `address`
  std::vector<int> address;
  // Derived. Lanes are the `width` neighbours of an item.
  bool varies = false;      // not the same in all lanes
  bool runs = false;        // varies by one from lane to lane
  bool whole_runs = false;  // ... from a multiple of 8
  std::vector<int> guards;  // gathered coordinates that it was made from: where one is negative there is nothing

  bool same_as(const PointwiseCoordinate& other) const;
};

struct PointwiseNode {
  //   masked  args[0], but 0 where the coordinate `condition` is negative
  //   choose  args[0] or args[1], as the coordinate `condition` says
  //   rotated what a rotation left in the workspace
  enum class Kind { number, param, input, map, masked, choose, rotated };
  Kind kind = Kind::number;
  double number = 0;
  int index = -1;              // param, input; rotated: the node of the graph
  ir::Op op = ir::Op::number;  // map
  Storage to = Storage::f32;   // map: cast
  std::vector<int> args;
  std::vector<int> address;  // input, rotated: a coordinate for each axis of its shape
  int condition = -1;
  bool uniform = true;  // the same in all lanes
  bool wide = false;    // input, rotated: eight neighbours in one load
};

struct PointwiseValue {
  std::vector<PointwiseCoordinate> coordinates;  // each after those it is made from
  std::vector<PointwiseNode> nodes;              // each after its arguments; the last is the value
};

// Where the groups of a grouped dimension lie, in shared memory: how many rows each has, and where it starts at each of
// the places that the launch needs. Offsets are in 32-bit words.
struct PointwiseTable {
  ir::DimId grouped = -1;
  int64_t groups = 0;
  int counts = 0;
  struct Place {
    ir::DimId dim = -1;  // -1: where its partials start, in rows: each group from a multiple of `chunk`
    int64_t alignment = 1;
    int64_t unit = 0;  // > 0: where a group's scale tiles of so many rows start, in tiles
    int starts = 0;
  };
  std::vector<Place> places;  // the first is the grouped dimension itself
};

// A kept axis that counts the groups of a grouped dimension over whose rows the value was contracted: what lies in an
// empty group is zero whatever the value is, or stays as it is under +=.
struct PointwiseContracted {
  int axis = -1;
  ir::DimId grouped = -1;
};

struct PointwiseLaunch {
  PointwiseKind kind = PointwiseKind::elements;
  int output = -1;  // into Graph::outputs
  std::string entry;
  bool warps = false;  // a warp takes an item, not a thread

  // The stored dimensions in memory order, then the reduced ones (reduce) in the value's. A split reduction over the
  // rows of each group does not walk the stored group count: its partials know their group.
  std::vector<PointwiseAxis> axes;
  int kept = 0;
  std::vector<int> order;  // of the kept axes, the fastest first, as items count them
  int lane_axis = -1;      // the axis along which `width` elements are computed at once; -1: one element
  int width = 1;

  // blocks: elements of a block along the last axis but one and along the last. An item is one of them, or neighbours.
  int block_rows = 1, block_columns = 1;
  bool rows_first = false;  // a warp's neighbours lie along the last axis but one
  // blocks: the axis along which the tensor's largest magnitudes lie (by the groups along it, or by its places); -1:
  // there is one, or none.
  int amax_axis = -1;
  bool amax_by_group = false;
  // blocks, clear: the axis whose groups begin a scale tile each; -1: none does. Layout blocked_128x4 only.
  int tiled_axis = -1;

  // elements, blocks; reduce and finish that store results.
  std::vector<PointwiseContracted> contracted;

  // rotate: the node of the graph. It is a split reduction that keeps all of its terms: `chunk` is 16.
  ir::NodeId rotation = -1;

  // reduce, finish, rotate: the partials. `chunk` 0: there are none.
  ir::Reduction reduction = ir::Reduction::none;
  PointwiseAxis split;  // the dimension of which a partial has `chunk` places
  int split_axis = -1;  // reduce: its index in axes
  int64_t chunk = 0;
  int group_axis = -1;      // finish: the kept axis that counts the groups; -1: all partials make one element
  IntExpr partials_offset;  // into the workspace; f32[chunk][kept element]

  PointwiseValue value;
  std::vector<PointwiseTable> tables;
  int shared_words = 0;

  // Items are those of the kept axes times the partials of each (reduce), the blocks of 16 (rotate) or the tiles of
  // each matrix of scales (clear).
  bool is_partial() const { return chunk > 0 && kind != PointwiseKind::finish; }
};

constexpr int pointwise_threads = 256;
constexpr int rotation_size = 16;

// The workspace region of a rotation's result: f32 over the node's names, rows apart by round_up(last extent, 8).
std::string rotation_region(ir::NodeId rotation);

}  // namespace epifuse::lowering
