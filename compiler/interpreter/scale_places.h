// Where the scales of one tensor lie in the buffer `y.scale`, and which places of that buffer are written at all
// (language.md S5 to S7, numerics.md §6).
//
// A place of an element is an index along each stored axis of the data's buffer. Its scale belongs to a block: indices
// divided by the block's sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/interpreter/problem.h"

namespace epifuse::interpreter {

// A stretch of places along an axis of a buffer, and whose they are.
struct StoredRange {
  enum class Kind : uint8_t { owned, gap, outside } kind;  // written with values; with zeros; not at all
  int64_t begin, end;
};

// The places along an axis of a tensor's buffer, in order. Rows outside the groups are outside, what is behind a group
// of an aligned dimension is a gap.
std::vector<StoredRange> stored_ranges(const Problem& problem, const ir::Extent& extent);

class ScalePlaces {
 public:
  // The problem must outlive it.
  ScalePlaces(const Problem& problem, const ir::Tensor& tensor);

  // The scale's position in the buffer, for an element at this place in this group (any number where nothing is
  // grouped).
  int64_t position(const int64_t* place, int group) const;

  // The stored axis whose places lie in groups, with these groups; -1: none.
  int grouped_axis() const { return grouped_axis_; }
  const Groups* groups() const { return groups_; }
  // The group of the element at a place, -1 where nothing is grouped; nothing for a place outside all groups.
  std::optional<int> group_of(const int64_t* place) const;

  // Every place of the buffer: scales of blocks are owned; those of gaps and the padding of a layout are gaps.
  std::vector<StoredRange::Kind> kinds() const;

 private:
  // Scales that lie in tiles of their own: of everything, or of one group. Where they begin, in blocks, across and
  // along, and their tiles.
  struct Matrix {
    int64_t first_across = 0, first_along = 0;
    int64_t first_tile = 0, tile_rows = 0, tile_columns = 0;
  };

  void find_groups();
  void lay_out_tiles();
  int64_t rows_of(size_t group) const;  // with its gap
  int64_t block_size(int axis) const { return axis == along_ ? along_block_ : axis == across_ ? across_block_ : 1; }
  int64_t blocks(int axis) const { return (extents_[axis] + block_size(axis) - 1) / block_size(axis); }
  int64_t position_of_block(const int64_t* block, int group) const;
  const Matrix& matrix(int group) const { return matrices_[matrices_.size() == 1 ? 0 : static_cast<size_t>(group)]; }

  // Blocks along an axis, and the group that they belong to.
  struct BlockRange {
    StoredRange range;
    int group;
  };
  std::vector<BlockRange> block_ranges(int axis) const;

  const Problem* problem_;
  const ir::Tensor* tensor_;
  int rank_, along_, across_;
  int64_t along_block_, across_block_;
  std::vector<int64_t> extents_, scale_extents_;
  std::vector<int64_t> strides_;  // of blocks along each axis, but in blocked_128x4
  int grouped_axis_ = -1;
  const Groups* groups_ = nullptr;
  bool has_gaps_ = false;
  std::vector<Matrix> matrices_;  // blocked_128x4: one, or one for each group
};

}  // namespace epifuse::interpreter
