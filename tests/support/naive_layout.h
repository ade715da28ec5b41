// Where the scales of a tensor lie, told from the other end: what belongs to each place of `y.scale`.
#pragma once

#include <string>
#include <vector>

#include "tests/support/naive_evaluation.h"

namespace epifuse::test {

class NaiveScaleLayout {
 public:
  NaiveScaleLayout(const NaiveSizes& sizes, const ir::Tensor& tensor);

  struct Place {
    enum class Kind {
      block,    // the scale of a block
      padding,  // written as zero
      outside,  // belongs to nobody
    } kind = Kind::outside;
    std::vector<int64_t> block;  // by axes of the tensor, in blocks along those that have them
  };
  // Of a buffer with these extents.
  Place place(int64_t position, const std::vector<int64_t>& extents) const;

  // What is wrong with the extents of a scales' buffer; empty if nothing is. Tiles of groups may have room to spare.
  std::string fault(const std::vector<int64_t>& extents) const;

  const std::vector<int64_t>& blocks() const { return blocks_; }  // by axes of the tensor
  // Elements of a block along an axis, those that are not there included.
  int64_t block_size(size_t axis) const;
  size_t along() const { return along_; }

 private:
  // Scales of one group, or of a whole matrix: across and along, where they begin among the tensor's blocks, and how
  // many tiles hold them.
  struct Matrix {
    int64_t first_across = 0, across = 0, first_along = 0, along = 0;
    int64_t tile_rows() const { return (across + 127) / 128; }
    int64_t tile_columns() const { return (along + 3) / 4; }
  };
  bool is_grouped(size_t axis) const { return !groups(axis).empty(); }
  const std::vector<NaiveSizes::Group>& groups(size_t axis) const;
  Place in_columns(std::vector<int64_t> index) const;
  Place in_tiles(int64_t position, const std::vector<int64_t>& extents) const;

  const NaiveSizes& sizes_;
  const ir::Tensor& tensor_;
  const ir::FormatInfo& info_;
  std::vector<int64_t> data_, blocks_;
  size_t along_ = 0, across_ = 0;  // the same where there is one axis
  std::vector<Matrix> matrices_;   // one behind the other
};

}  // namespace epifuse::test
