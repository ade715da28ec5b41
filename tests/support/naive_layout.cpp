#include "tests/support/naive_layout.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::test {
namespace {

constexpr int64_t tile_bytes = 512;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> unravel(int64_t position, const std::vector<int64_t>& extents) {
  std::vector<int64_t> index(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;) {
    index[axis] = position % extents[axis];
    position /= extents[axis];
  }
  return index;
}

}  // namespace

NaiveScaleLayout::NaiveScaleLayout(const NaiveSizes& sizes, const ir::Tensor& tensor)
    : sizes_(sizes), tensor_(tensor), info_(ir::format_info(tensor.type.format)) {
  for (const ir::Extent& extent : tensor.shape) data_.push_back(sizes.size(extent));
  const size_t rank = data_.size();
  along_ = tensor.type.along_axis < 0 ? rank - 1 : static_cast<size_t>(tensor.type.along_axis);
  across_ = rank == 1 ? 0 : along_ + 1 == rank ? rank - 2 : rank - 1;
  for (size_t axis = 0; axis < rank; ++axis) blocks_.push_back(ceil_div(data_[axis], block_size(axis)));
  if (tensor.type.layout != ir::ScaleLayout::blocked_128x4) return;

  const Matrix whole = {0, blocks_[across_], 0, blocks_[along_]};
  const int64_t a = block_size(across_), b = block_size(along_);
  for (const size_t axis : {across_, along_}) {
    for (const NaiveSizes::Group& group : groups(axis)) {
      const int64_t rows = group.end == group.start ? 0 : group.gap_end - group.start;
      Matrix one = whole;
      if (axis == across_)
        one.first_across = group.start / a, one.across = ceil_div(rows, a);
      else
        one.first_along = group.start / b, one.along = ceil_div(rows, b);
      matrices_.push_back(one);
    }
  }
  if (matrices_.empty()) matrices_ = {whole};
}

int64_t NaiveScaleLayout::block_size(size_t axis) const {
  if (axis == along_) return info_.block_columns;
  return axis == across_ ? info_.block_rows : 1;
}

const std::vector<NaiveSizes::Group>& NaiveScaleLayout::groups(size_t axis) const {
  static const std::vector<NaiveSizes::Group> none;
  const ir::Extent& extent = tensor_.shape[axis];
  return extent.dim < 0 || extent.times != 1 || extent.over != 1 ? none : sizes_.groups(extent.dim);
}

NaiveScaleLayout::Place NaiveScaleLayout::place(int64_t position, const std::vector<int64_t>& extents) const {
  switch (tensor_.type.layout) {
    case ir::ScaleLayout::rows: return {Place::Kind::block, unravel(position, extents)};
    case ir::ScaleLayout::columns_tma: return in_columns(unravel(position, extents));
    case ir::ScaleLayout::blocked_128x4: break;
  }
  return in_tiles(position, extents);
}

NaiveScaleLayout::Place NaiveScaleLayout::in_columns(std::vector<int64_t> index) const {
  const size_t rank = index.size();
  std::swap(index[rank - 2], index[rank - 1]);
  if (index[rank - 2] < blocks_[rank - 2]) return {Place::Kind::block, index};
  // Behind the last of a grouped dimension are rows of nobody, and so are rows of no group all along.
  const size_t other = rank - 1;
  bool outside = is_grouped(rank - 2) || is_grouped(other);
  for (const NaiveSizes::Group& group : groups(other)) {
    const int64_t size = block_size(other);
    if (group.start != group.end && group.start / size <= index[other] && index[other] < ceil_div(group.gap_end, size))
      outside = false;
  }
  return {outside ? Place::Kind::outside : Place::Kind::padding, {}};
}

NaiveScaleLayout::Place NaiveScaleLayout::in_tiles(int64_t position, const std::vector<int64_t>& extents) const {
  const size_t rank = data_.size();
  const int64_t byte = position % tile_bytes, row = byte % 16 / 4 * 32 + byte / 16, column = byte % 4;
  const int64_t tiles = extents[rank - 2] * extents[rank - 1];
  std::vector<int64_t> index = unravel(position / tile_bytes / tiles, {extents.begin(), extents.end() - 3});
  index.resize(rank);
  int64_t tile = position / tile_bytes % tiles;
  for (const Matrix& matrix : matrices_) {
    const int64_t count = matrix.tile_rows() * matrix.tile_columns();
    if (tile >= count) {
      tile -= count;
      continue;
    }
    const int64_t across = tile / matrix.tile_columns() * 128 + row, along = tile % matrix.tile_columns() * 4 + column;
    if (across >= matrix.across || along >= matrix.along) return {Place::Kind::padding, {}};
    index[across_] = matrix.first_across + across;
    index[along_] = matrix.first_along + along;
    return {Place::Kind::block, index};
  }
  return {Place::Kind::outside, {}};
}

std::string NaiveScaleLayout::fault(const std::vector<int64_t>& extents) const {
  std::vector<int64_t> wanted = blocks_;
  const size_t rank = blocks_.size();
  if (tensor_.type.layout == ir::ScaleLayout::columns_tma) {
    std::swap(wanted[rank - 2], wanted[rank - 1]);
    wanted[rank - 1] = ceil_div(wanted[rank - 1], 4) * 4;
  } else if (tensor_.type.layout == ir::ScaleLayout::blocked_128x4) {
    int64_t rows = 0, columns = 0;
    for (const Matrix& matrix : matrices_) {
      rows = is_grouped(across_) ? rows + matrix.tile_rows() : matrix.tile_rows();
      columns = is_grouped(along_) ? columns + matrix.tile_columns() : matrix.tile_columns();
    }
    wanted.resize(rank - 2);
    if (is_grouped(along_))
      wanted.insert(wanted.end(), {columns, rows, tile_bytes});
    else
      wanted.insert(wanted.end(), {rows, columns, tile_bytes});
    const bool grouped = is_grouped(across_) || is_grouped(along_);
    if (grouped && extents.size() == wanted.size() && extents[rank - 2] > wanted[rank - 2])
      wanted[rank - 2] = extents[rank - 2];
  }
  if (extents == wanted) return "";
  return fmt::format("scales of [{}] where [{}] belong", fmt::join(extents, ", "), fmt::join(wanted, ", "));
}

}  // namespace epifuse::test
