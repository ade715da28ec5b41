// The walk over output tiles where the contraction lies in groups (a weight gradient): each group has a whole result of
// its own, [rows, columns], and contracts its own stretch. Results lie one behind the other in the output.
#pragma once

#include "atom/ownership.cuh"
#include "pipeline/group_sizes.cuh"
#include "pipeline/raster.cuh"
#include "tile/tile.cuh"

namespace epifuse {

// Plan: what group_rows() names, places, local(place), depth_alignment, skips_empty (an empty group's result is left
// alone). Parameters: groups, capacity (of the contraction), rows, row_tiles, column_tiles, band.
template <class Plan, class Parameters>
class DepthWalk {
 public:
  EPIFUSE_DEVICE explicit DepthWalk(const Parameters& parameters) : p_(parameters) { measure(); }

  // False when the index is past the last tile. Indices must not fall from call to call.
  EPIFUSE_DEVICE bool seek(int index, Tile<Plan::places>& tile) {
    const int group_tiles = p_.row_tiles * p_.column_tiles;
    while (index >= before_ + (has_tiles_ ? group_tiles : 0)) {
      if (has_tiles_) before_ += group_tiles;
      has_tiles_ = false;
      if (group_ + 1 >= p_.groups) return false;
      start_ += round_up(depth_, Plan::depth_alignment);
      ++group_;
      if constexpr (in_slots(Plan::groups)) start_ = slot_start(p_, group_);
      measure();
    }
    const RasterPlace at = raster(index - before_, p_.row_tiles, p_.column_tiles, p_.band);
    const int first = at.row_tile * tile_rows;
    tile.group = group_;
    tile.column_tile = at.column_tile;
    tile.row_tile = group_ * p_.row_tiles + at.row_tile;
    tile.first_row = first;
    tile.valid_rows = p_.rows - first;
    tile.depth_first = start_;
    tile.depth = depth_;
#pragma unroll
    for (int i = 0; i < Plan::places; ++i)
      tile.rows[i] = {(Plan::local(i) ? 0 : group_ * p_.rows) + first, round_up(p_.rows, Plan::alignment(i)) - first};
    return true;
  }

  EPIFUSE_DEVICE int total() const { return before_; }

 private:
  EPIFUSE_DEVICE void measure() {
    depth_ = group_rows<Plan>(p_, group_, start_);
    has_tiles_ = !Plan::skips_empty || depth_ > 0;
  }

  const Parameters& p_;
  int group_ = 0;
  int before_ = 0;  // tiles of the groups before this one
  int start_ = 0, depth_ = 0;
  bool has_tiles_ = false;
};

}  // namespace epifuse
