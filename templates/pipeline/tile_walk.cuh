// The walk over output tiles whose rows lie in groups: which group, rows and columns the index-th tile covers. Every
// role of a CTA walks by itself and gets the same answers. Where CTAs work in pairs, an index is of two row tiles, the
// second of which a group may not have.
#pragma once

#include "atom/ownership.cuh"
#include "pipeline/group_sizes.cuh"
#include "pipeline/raster.cuh"
#include "ptx/cluster.cuh"
#include "tile/tile.cuh"

namespace epifuse {

// Plan: what group_rows() names, places, alignment(place), local(place), pairs. Parameters: groups, capacity,
// column_tiles, band.
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
    while (index >= (steps_before_ + row_steps()) * p_.column_tiles) {
      steps_before_ += row_steps();
      if constexpr (Plan::pairs) row_tiles_before_ += row_tiles_;
      if (Plan::groups == Groups::one || group_ + 1 >= p_.groups) {
        row_tiles_ = 0;
        return false;
      }
#pragma unroll
      for (int i = 0; i < Plan::places; ++i) start_[i] += round_up(rows_, Plan::alignment(i));
      ++group_;
      if constexpr (in_slots(Plan::groups)) start_[0] = slot_start(p_, group_);
      measure();
    }
    RasterPlace at = raster(index - steps_before_ * p_.column_tiles, row_steps(), p_.column_tiles, p_.band);
    if constexpr (Plan::pairs) {
      tile.alone = 2 * at.row_tile + 1 == row_tiles_;
      at.row_tile = 2 * at.row_tile + static_cast<int>(ptx::cluster_rank());
      tile.exists = at.row_tile < row_tiles_;
    }
    const int first = at.row_tile * tile_rows;
    tile.group = group_;
    tile.column_tile = at.column_tile;
    tile.row_tile = (Plan::pairs ? row_tiles_before_ : steps_before_) + at.row_tile;
    tile.first_row = first;
    tile.valid_rows = rows_ - first;
#pragma unroll
    for (int i = 0; i < Plan::places; ++i)
      tile.rows[i] = {(Plan::local(i) ? 0 : start_[i]) + first, stored_rows(i) - first};
    return true;
  }

  // After seek() has failed: how many indices there are.
  EPIFUSE_DEVICE int total() const { return steps_before_ * p_.column_tiles; }

 private:
  EPIFUSE_DEVICE int row_steps() const { return Plan::pairs ? (row_tiles_ + 1) / 2 : row_tiles_; }

  // Rows of the group in a place, its gap included. The gap of the rows dimension itself may end past the capacity.
  EPIFUSE_DEVICE int stored_rows(int place) const {
    const int rows = round_up(rows_, Plan::alignment(place));
    return place == 0 && Plan::alignment(0) != 1 ? min(rows, p_.capacity - start_[0]) : rows;
  }

  EPIFUSE_DEVICE void measure() {
    rows_ = group_rows<Plan>(p_, group_, start_[0]);
    int longest = rows_;
#pragma unroll
    for (int i = 0; i < Plan::places; ++i)
      if (tile_rows % Plan::alignment(i) != 0) longest = max(longest, round_up(rows_, Plan::alignment(i)));
    row_tiles_ = (longest + tile_rows - 1) / tile_rows;
  }

  const Parameters& p_;
  int group_ = 0;
  int rows_ = 0;
  int row_tiles_ = 0;
  int steps_before_ = 0;      // row tiles, or pairs of them, of the groups before this one
  int row_tiles_before_ = 0;  // in pairs: their row tiles
  int start_[Plan::places];
};

}  // namespace epifuse
