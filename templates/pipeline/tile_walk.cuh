// The walk over output tiles: which group, rows and columns the index-th tile covers. Group sizes are read on the
// device, so nothing on the host depends on them. Every role of a CTA walks by itself and gets the same answers.
//
// Work item: group by group, and inside a group in bands of `band` column tiles, rows first inside a band, so that the
// tiles that run at one time share operand rows and columns in L2.
#pragma once

#include "atom/ownership.cuh"
#include "ptx/types.cuh"
#include "tile/tile.cuh"

namespace epifuse {

enum class Groups { one, ends, counts };

EPIFUSE_DEVICE int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Plan: groups (Groups), wide_sizes, places, alignment(place). Parameters: group_sizes, groups, capacity, column_tiles,
// band.
template <class Plan, class Parameters>
class TileWalk {
 public:
  EPIFUSE_DEVICE explicit TileWalk(const Parameters& parameters) : p_(parameters) {
#pragma unroll
    for (int i = 0; i < Plan::places; ++i) start_[i] = 0;
    measure();
  }

  // False when the index is past the last tile. Indices must not fall from call to call.
  EPIFUSE_DEVICE bool seek(int index, Tile<Plan::places>& tile) {
    while (index >= before_ + row_tiles_ * p_.column_tiles) {
      if (Plan::groups == Groups::one || group_ + 1 >= p_.groups) {
        before_ += row_tiles_ * p_.column_tiles;
        row_tiles_ = 0;
        return false;
      }
      before_ += row_tiles_ * p_.column_tiles;
#pragma unroll
      for (int i = 0; i < Plan::places; ++i) start_[i] += round_up(rows_, Plan::alignment(i));
      ++group_;
      measure();
    }
    const int local = index - before_;
    const int band_tiles = p_.band * row_tiles_;
    const int band = local / band_tiles, in_band = local - band * band_tiles;
    const int width = min(p_.band, p_.column_tiles - band * p_.band);
    const int row_tile = in_band / width;
    tile.group = group_;
    tile.column_tile = band * p_.band + in_band - row_tile * width;
    tile.valid_rows = rows_ - row_tile * tile_rows;
#pragma unroll
    for (int i = 0; i < Plan::places; ++i)
      tile.rows[i] = {start_[i] + row_tile * tile_rows, stored_rows(i) - row_tile * tile_rows};
    return true;
  }

  // After seek() has failed: how many tiles there are.
  EPIFUSE_DEVICE int total() const { return before_; }

 private:
  // A size that no capacity can hold is cut here, before it is taken for an int.
  EPIFUSE_DEVICE int size_at(int group) const {
    if (!Plan::wide_sizes) return __ldg(static_cast<const int*>(p_.group_sizes) + group);
    const i64 size = __ldg(static_cast<const i64*>(p_.group_sizes) + group);
    return static_cast<int>(max(i64{0}, min(size, i64{p_.capacity})));
  }

  // Rows of the group in a place, its gap included. The gap of the rows dimension itself may end past the capacity.
  EPIFUSE_DEVICE int stored_rows(int place) const {
    const int rows = round_up(rows_, Plan::alignment(place));
    return place == 0 && Plan::alignment(0) != 1 ? min(rows, p_.capacity - start_[0]) : rows;
  }

  // Rows of the current group. Sizes that do not fit the capacity are cut, so that nothing past it is touched.
  EPIFUSE_DEVICE void measure() {
    const int left = p_.capacity - start_[0];
    int rows = p_.capacity;
    if (Plan::groups == Groups::ends) rows = size_at(group_) - start_[0];
    if (Plan::groups == Groups::counts) rows = size_at(group_);
    rows_ = max(0, min(rows, left));
    int longest = rows_;
#pragma unroll
    for (int i = 0; i < Plan::places; ++i)
      if (tile_rows % Plan::alignment(i) != 0) longest = max(longest, round_up(rows_, Plan::alignment(i)));
    row_tiles_ = (longest + tile_rows - 1) / tile_rows;
  }

  const Parameters& p_;
  int group_ = 0;
  int before_ = 0;  // tiles of the groups before this one
  int rows_ = 0;
  int row_tiles_ = 0;
  int start_[Plan::places];
};

}  // namespace epifuse
