#include "compiler/interpreter/scale_places.h"

#include <algorithm>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"

namespace epifuse::interpreter {
namespace {

using Kind = StoredRange::Kind;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t product(std::vector<int64_t>::const_iterator from, std::vector<int64_t>::const_iterator to) {
  int64_t result = 1;
  for (; from != to; ++from) result *= *from;
  return result;
}

const Groups* groups_along(const Problem& problem, const ir::Extent& extent) {
  return extent.times == 1 && extent.over == 1 ? problem.groups(extent.dim) : nullptr;
}

// Rows behind a group that are written, as zeros.
bool has_gaps(const Problem& problem, const ir::Extent& extent) {
  const ir::Dimension& dim = problem.graph().dims[extent.dim];
  return dim.align > 1 && !dim.slot;
}

}  // namespace

std::vector<StoredRange> stored_ranges(const Problem& problem, const ir::Extent& extent) {
  std::vector<StoredRange> ranges;
  const auto add = [&](Kind kind, int64_t begin, int64_t end) {
    if (begin < end) ranges.push_back({kind, begin, end});
  };
  const int64_t size = problem.size(extent);
  const Groups* groups = groups_along(problem, extent);
  if (!groups) {
    add(Kind::owned, 0, size);
    return ranges;
  }
  int64_t done = 0;
  for (size_t e = 0; e < groups->start.size(); ++e) {
    if (groups->count(e) == 0) continue;
    add(Kind::outside, done, groups->start[e]);
    add(Kind::owned, groups->start[e], groups->end[e]);
    done = groups->end[e];
    if (!has_gaps(problem, extent)) continue;
    add(Kind::gap, done, groups->gap_end[e]);
    done = std::max(done, groups->gap_end[e]);
  }
  add(Kind::outside, done, size);
  return ranges;
}

ScalePlaces::ScalePlaces(const Problem& problem, const ir::Tensor& tensor)
    : problem_(&problem),
      tensor_(&tensor),
      rank_(static_cast<int>(tensor.shape.size())),
      along_(ir::along_axis(tensor.type, rank_)),
      across_(ir::across_axis(tensor.type, rank_)),
      along_block_(ir::format_info(tensor.type.format).block_columns),
      across_block_(ir::format_info(tensor.type.format).block_rows),
      extents_(problem.extents(tensor)),
      scale_extents_(problem.scale_extents(tensor)) {
  find_groups();
  if (tensor.type.layout == ir::ScaleLayout::blocked_128x4) {
    lay_out_tiles();
    return;
  }
  strides_ = HostTensor{Storage::e8m0, scale_extents_, {}}.strides();
  if (tensor.type.layout == ir::ScaleLayout::columns_tma) std::swap(strides_[rank_ - 2], strides_[rank_ - 1]);
}

void ScalePlaces::find_groups() {
  for (int axis = 0; axis < rank_; ++axis) {
    const ir::Extent& extent = tensor_->shape[axis];
    const Groups* groups = groups_along(*problem_, extent);
    if (!groups) continue;
    grouped_axis_ = axis;
    groups_ = groups;
    has_gaps_ = has_gaps(*problem_, extent);
  }
}

int64_t ScalePlaces::rows_of(size_t group) const {
  if (groups_->count(group) == 0) return 0;
  return (has_gaps_ ? groups_->gap_end[group] : groups_->end[group]) - groups_->start[group];
}

void ScalePlaces::lay_out_tiles() {
  const int64_t tile_rows = ceil_div(blocks(across_), ir::scale_tile_rows);
  const int64_t tile_columns = ceil_div(blocks(along_), ir::scale_tile_columns);
  const bool across = grouped_axis_ == across_, along = grouped_axis_ == along_;
  if (!across && !along) {
    matrices_.push_back({0, 0, 0, tile_rows, tile_columns});
    return;
  }
  int64_t first_tile = 0;
  for (size_t e = 0; e < groups_->start.size(); ++e) {
    const int64_t rows = rows_of(e);
    Matrix matrix{0, 0, first_tile, tile_rows, tile_columns};
    if (across) {
      matrix.first_across = groups_->start[e] / across_block_;
      matrix.tile_rows = ceil_div(ceil_div(rows, across_block_), ir::scale_tile_rows);
    } else {
      matrix.first_along = groups_->start[e] / along_block_;
      matrix.tile_columns = ceil_div(ceil_div(rows, along_block_), ir::scale_tile_columns);
    }
    first_tile += matrix.tile_rows * matrix.tile_columns;
    matrices_.push_back(matrix);
  }
  EPIFUSE_ENSURE(first_tile * ir::scale_tile_bytes <= product(scale_extents_.end() - 3, scale_extents_.end()),
                 "the scales' buffer has no room for all groups");
}

std::optional<int> ScalePlaces::group_of(const int64_t* place) const {
  if (!groups_) return -1;
  const int64_t row = place[grouped_axis_];
  // The last group that begins here or before; empty ones begin where others do.
  auto group = std::upper_bound(groups_->start.begin(), groups_->start.end(), row) - groups_->start.begin() - 1;
  while (group >= 0 && groups_->count(static_cast<size_t>(group)) == 0) --group;
  if (group < 0 || row >= groups_->end[static_cast<size_t>(group)]) return std::nullopt;
  return static_cast<int>(group);
}

int64_t ScalePlaces::position(const int64_t* place, int group) const {
  std::vector<int64_t> block(place, place + rank_);
  block[along_] /= along_block_;
  if (across_block_ > 1) block[across_] /= across_block_;
  return position_of_block(block.data(), group);
}

int64_t ScalePlaces::position_of_block(const int64_t* block, int group) const {
  int64_t result = 0;
  if (matrices_.empty()) {
    for (int axis = 0; axis < rank_; ++axis) result += block[axis] * strides_[axis];
    return result;
  }
  for (int axis = 0; axis < rank_ - 2; ++axis) result = result * extents_[axis] + block[axis];
  result *= product(scale_extents_.end() - 3, scale_extents_.end());
  const Matrix& in = matrix(group);
  const int64_t o = block[across_] - in.first_across, k = block[along_] - in.first_along;
  const int64_t tile = in.first_tile + o / ir::scale_tile_rows * in.tile_columns + k / ir::scale_tile_columns;
  // numerics.md §6.2: 32 rows of 16 bytes, each with the four scales of four rows 32 apart.
  return result + tile * ir::scale_tile_bytes + o % 32 * 16 + o % ir::scale_tile_rows / 32 * 4 +
         k % ir::scale_tile_columns;
}

std::vector<ScalePlaces::BlockRange> ScalePlaces::block_ranges(int axis) const {
  const int64_t count = blocks(axis), size = block_size(axis);
  if (axis != grouped_axis_) {
    std::vector<BlockRange> all = {{{Kind::owned, 0, count}, -1}};
    // The pitch of columns_tma: what was the second last dimension is the last one there.
    if (tensor_->type.layout == ir::ScaleLayout::columns_tma && axis == rank_ - 2)
      all.push_back({{Kind::gap, count, scale_extents_.back()}, -1});
    return all;
  }
  std::vector<BlockRange> ranges;
  for (size_t e = 0; e < groups_->start.size(); ++e) {
    if (groups_->count(e) == 0) continue;
    const int group = static_cast<int>(e);
    const int64_t first = groups_->start[e] / size, end = ceil_div(groups_->end[e], size);
    ranges.push_back({{Kind::owned, first, end}, group});
    // A block that is partly gap has its scale from the elements that are there.
    if (has_gaps_) ranges.push_back({{Kind::gap, end, ceil_div(groups_->gap_end[e], size)}, group});
  }
  return ranges;
}

std::vector<Kind> ScalePlaces::kinds() const {
  std::vector<Kind> kinds(static_cast<size_t>(product(scale_extents_.begin(), scale_extents_.end())), Kind::outside);
  if (!matrices_.empty()) {
    const int64_t per_matrix = product(scale_extents_.end() - 3, scale_extents_.end());
    for (int64_t leading = 0; leading < product(extents_.begin(), extents_.end() - 2); ++leading)
      for (const Matrix& matrix : matrices_)
        std::fill_n(kinds.begin() + leading * per_matrix + matrix.first_tile * ir::scale_tile_bytes,
                    matrix.tile_rows * matrix.tile_columns * ir::scale_tile_bytes, Kind::gap);
  }
  std::vector<std::vector<BlockRange>> ranges;
  for (int axis = 0; axis < rank_; ++axis) ranges.push_back(block_ranges(axis));
  std::vector<int64_t> block(static_cast<size_t>(rank_));
  const auto visit = [&](const auto& self, int axis, int group, Kind kind) -> void {
    if (axis == rank_) {
      kinds[static_cast<size_t>(position_of_block(block.data(), group))] = kind;
      return;
    }
    for (const BlockRange& each : ranges[axis])
      for (block[axis] = each.range.begin; block[axis] < each.range.end; ++block[axis])
        self(self, axis + 1, each.group < 0 ? group : each.group, each.range.kind == Kind::gap ? Kind::gap : kind);
  };
  visit(visit, 0, -1, Kind::owned);
  return kinds;
}

}  // namespace epifuse::interpreter
