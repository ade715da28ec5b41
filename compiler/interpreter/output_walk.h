// Walks over the elements of an output, tile by tile: the one place that knows which elements an output has, where they
// lie in its buffers, and what its value is there. Stores and the judge differ only in what they do with a tile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compiler/interpreter/evaluator.h"
#include "compiler/interpreter/reduce.h"
#include "compiler/interpreter/scaled_tensor.h"

namespace epifuse::interpreter {

// Places of the domain along one axis that are evaluated together.
struct DomainRange {
  int64_t begin, end;
  int group;          // -1: the axis says nothing about groups
  bool zero = false;  // an empty group: zeros are stored, whatever the value would be
};

// A rectangle of one output: rows along one axis of the domain, columns along another, all in one group.
struct Tile {
  std::vector<int64_t> position;  // of its first element, on each axis of the domain
  int64_t rows = 1, cols = 1;
  int group = -1;              // the group that it belongs to, -1 when nothing is grouped
  std::vector<int64_t> place;  // of its first element: an index along each axis of the buffer
  int64_t first = 0;           // … and its position there

  static constexpr int64_t pitch = chunk_size, most_rows = 128;
  std::vector<double> value, low, high;  // [rows][pitch]; low and high are empty without bounds
  // How far the device's value is from this one at most when all goes as it should (the norm of errors is held against
  // its norm). Only of reductions, and with bounds; else it follows from the interval.
  std::vector<double> slack;
  // As Lane::jumps. Only with bounds, and not of reductions, whose slack has their terms' jumps in it.
  std::vector<double> jumps;
};

class OutputWalk {
 public:
  static Result<OutputWalk> make(const Problem& problem, const GemmResults& gemms, const ir::Output& output,
                                 bool bounds, int threads);

  int64_t tiles() const { return tiles_; }
  // Evaluates tile `index`. Tiles are independent, and a tile is whole blocks of a scaled type.
  Tile tile(int64_t index) const;

  const ir::Shape& domain() const { return domain_; }
  int64_t domain_size(size_t axis) const { return sizes_[axis]; }
  int row_axis() const { return row_axis_; }  // -1: one row
  int col_axis() const { return col_axis_; }  // -1: a scalar

  // The position in the buffer of a tile's element.
  int64_t position(const Tile& tile, int64_t row, int64_t col) const {
    return tile.first + row * stride(row_axis_) + col * stride(col_axis_);
  }
  // Its index along each axis of the buffer.
  std::vector<int64_t> place(const Tile& tile, int64_t row, int64_t col) const;

  // Of an output of a scaled type; else null.
  const ScaledTensor* scaled() const { return scaled_.get(); }
  // Sizes of a block along the rows and along the columns of a tile, which is made of whole blocks.
  int64_t block_rows() const { return block_of(row_axis_); }
  int64_t block_cols() const { return block_of(col_axis_); }

  // The axes of the buffer that are not owned from end to end, with their ranges in order.
  struct CutAxis {
    size_t axis;
    std::vector<StoredRange> ranges;
  };
  std::vector<CutAxis> cut_axes() const;

 private:
  OutputWalk(const Problem& problem, const ir::Output& output) : problem_(&problem), output_(&output) {}
  void lay_out();
  void choose_axes();
  void cut_into_ranges();
  std::vector<DomainRange> ranges_of(size_t axis) const;
  bool is_group_count(const ir::Extent& name) const;
  bool has_no_terms(const ir::Extent& name, int64_t place) const;
  void clear_without_terms(Tile& tile) const;
  int64_t shift(size_t axis, int64_t place) const;
  int64_t stride(int axis) const { return axis < 0 ? 0 : strides_[axis]; }
  int64_t block_of(int axis) const {
    return axis < 0 ? 1 : axis == along_ ? along_block_ : axis == across_ ? across_block_ : 1;
  }

  const Problem* problem_;
  const ir::Output* output_;
  bool bounds_ = false;
  // Grouped dimensions over whose rows the output is a sum. An empty group has no terms: its element is stored as zero,
  // or not at all with +=.
  std::vector<ir::DimId> summed_;
  ir::Shape domain_;  // base names
  std::vector<int64_t> sizes_, strides_;
  std::vector<int> stored_axes_;  // the axis of the buffer under which an axis of the domain is stored
  int row_axis_ = -1, col_axis_ = -1, along_ = -1, across_ = -1;
  int64_t along_block_ = 1, across_block_ = 1;
  std::vector<std::vector<DomainRange>> pieces_;  // per axis, no longer than a tile
  int64_t tiles_ = 0;
  std::shared_ptr<const ValueProgram> program_;  // of the value; null when it is reduced
  std::shared_ptr<const Reduced> reduced_;
  std::shared_ptr<const ScaledTensor> scaled_;
};

}  // namespace epifuse::interpreter
