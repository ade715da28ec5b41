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

namespace epifuse::interpreter {

// A stretch of places along an axis of a buffer, and whose they are.
struct StoredRange {
  enum class Kind { owned, gap, outside } kind;  // written with values; with zeros; not at all
  int64_t begin, end;
};

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
  int group = -1;                      // the group that it belongs to, -1 when nothing is grouped
  int64_t first = 0, first_scale = 0;  // where its first element, and that element's scale, lie in the buffers

  static constexpr int64_t pitch = chunk_size, most_rows = 128;
  std::vector<double> value, low, high;  // [rows][pitch]; low and high are empty without bounds
  // How far the device's value is from this one at most when all goes as it should (the norm of errors is held against
  // its norm). Only of reductions, and with bounds; else it follows from the interval.
  std::vector<double> slack;
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

  // Distances in the buffer between neighbours along rows and columns of a tile, in elements and in scales; scales do
  // not move along the axis that blocks run along but by whole blocks.
  int64_t row_stride() const { return stride(strides_, row_axis_); }
  int64_t col_stride() const { return stride(strides_, col_axis_); }
  int64_t row_scale_stride() const { return stride(scale_strides_, row_axis_); }
  int64_t col_scale_stride() const { return stride(scale_strides_, col_axis_); }
  bool blocks_along_rows() const { return along_ >= 0 && along_ == row_axis_; }

  // The axes of the buffer (of the scales) that are not owned from end to end, with their ranges in order.
  struct CutAxis {
    size_t axis;
    std::vector<StoredRange> ranges;
  };
  std::vector<CutAxis> cut_axes(bool scales) const;

 private:
  OutputWalk(const Problem& problem, const ir::Output& output) : problem_(&problem), output_(&output) {}
  void lay_out();
  void choose_axes();
  void cut_into_ranges();
  std::vector<DomainRange> ranges_of(size_t axis) const;
  bool is_group_count(const ir::Extent& name, ir::DimId& grouped) const;
  int64_t shift(size_t axis, int64_t place) const;
  static int64_t stride(const std::vector<int64_t>& strides, int axis) { return axis < 0 ? 0 : strides[axis]; }

  const Problem* problem_;
  const ir::Output* output_;
  bool bounds_ = false;
  bool per_group_ = false;  // an empty group has no terms, so its element is stored as zero, or not at all with +=
  ir::Shape domain_;        // base names
  std::vector<int64_t> sizes_, strides_, scale_strides_;
  std::vector<ir::DimId> stored_dims_;  // the dimension, perhaps aligned, under which an axis is stored
  int row_axis_ = -1, col_axis_ = -1, along_ = -1;
  int64_t block_ = 1;                             // elements of a block along `along_`
  std::vector<std::vector<DomainRange>> pieces_;  // per axis, no longer than a tile
  int64_t tiles_ = 0;
  std::shared_ptr<const ValueProgram> program_;  // of the value; null when it is reduced
  std::shared_ptr<const Reduced> reduced_;
};

}  // namespace epifuse::interpreter
