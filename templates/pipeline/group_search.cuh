// Where one group's rows and row tiles lie, for launches behind the GEMM's that are too short to walk up to it: a warp
// looks at 32 groups at once. The answers are those of pipeline/tile_walk.cuh.
#pragma once

#include "atom/ownership.cuh"
#include "pipeline/group_sizes.cuh"

namespace epifuse {

template <int places>
struct GroupPlace {
  int group;
  int rows;
  int first_tile, tiles;  // row tiles, counted over all groups
  int start[places];      // of its rows in each place
};

namespace group_search {

// Inclusive over the lanes of the warp, and what the lane before has (`first` in lane 0).
template <class Join>
EPIFUSE_DEVICE u32 scan(u32 value, int lane, Join join) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(~0u, value, distance);
    value = lane >= distance ? join(other, value) : value;
  }
  return value;
}
EPIFUSE_DEVICE u32 before(u32 scanned, int lane, u32 first) {
  const u32 other = __shfl_up_sync(~0u, scanned, 1);
  return lane == 0 ? first : other;
}

// Tiles that a group of so many rows has: as many as the longest of its places needs.
template <class Plan>
EPIFUSE_DEVICE int row_tiles(int rows) {
  int longest = rows;
#pragma unroll
  for (int i = 0; i < Plan::places; ++i)
    if (tile_rows % Plan::alignment(i) != 0) longest = max(longest, round_up(rows, Plan::alignment(i)));
  return (longest + tile_rows - 1) / tile_rows;
}

}  // namespace group_search

// The first group for which wanted(place) holds; false if there is none. By all lanes of a warp, with the same
// `wanted`. Plan and Parameters: those of TileWalk.
template <class Plan, class Parameters, class Wanted>
EPIFUSE_DEVICE bool find_group(const Parameters& p, Wanted wanted, GroupPlace<Plan::places>& found) {
  using namespace group_search;
  const int lane = static_cast<int>(threadIdx.x & 31);
  const auto sum = [](u32 a, u32 b) { return a + b; };
  const u32 limit = static_cast<u32>(round_up(p.capacity, Plan::alignment(0)));
  u32 carry_rows = 0, carry_tiles = 0, carry[Plan::places] = {};
  for (int first = 0; first < p.groups; first += 32) {
    GroupPlace<Plan::places> place;
    place.group = first + lane;
    const bool exists = place.group < p.groups;

    // Where the group starts follows from the sizes of those before it. None reaches past the limit.
    int start = 0;
    if constexpr (Plan::groups == Groups::uniform) {
      start = place.group * p.batch_rows;
    } else if constexpr (in_slots(Plan::groups)) {
      start = slot_start(p, place.group);
    } else if constexpr (Plan::groups != Groups::one) {
      const u32 size = exists ? round_up(group_rows<Plan>(p, place.group, 0), Plan::alignment(0)) : 0;
      u32 stop;
      if constexpr (Plan::groups == Groups::ends)
        stop = scan(max(size, carry_rows), lane, [](u32 a, u32 b) { return max(a, b); });
      else
        stop = scan(lane == 0 ? min(size + carry_rows, limit) : size, lane,
                    [limit](u32 a, u32 b) { return min(a + b, limit); });
      start = static_cast<int>(before(stop, lane, carry_rows));
      carry_rows = __shfl_sync(~0u, stop, 31);
    }
    place.rows = exists ? group_rows<Plan>(p, place.group, start) : 0;
    place.tiles = row_tiles<Plan>(place.rows);
    const u32 tiles_stop = scan(place.tiles, lane, sum) + carry_tiles;
    place.first_tile = static_cast<int>(tiles_stop) - place.tiles;
    place.start[0] = start;
#pragma unroll
    for (int i = 1; i < Plan::places; ++i) {
      const u32 rows = round_up(place.rows, Plan::alignment(i)), stop = scan(rows, lane, sum) + carry[i];
      place.start[i] = static_cast<int>(stop - rows);
      carry[i] = __shfl_sync(~0u, stop, 31);
    }
    carry_tiles = __shfl_sync(~0u, tiles_stop, 31);

    const u32 matches = __ballot_sync(~0u, exists && wanted(place));
    if (matches == 0) continue;
    const int at = __ffs(static_cast<int>(matches)) - 1;
    found.group = first + at;
    found.rows = __shfl_sync(~0u, place.rows, at);
    found.first_tile = __shfl_sync(~0u, place.first_tile, at);
    found.tiles = __shfl_sync(~0u, place.tiles, at);
#pragma unroll
    for (int i = 0; i < Plan::places; ++i) found.start[i] = __shfl_sync(~0u, place.start[i], at);
    return true;
  }
  return false;
}

template <class Plan, class Parameters>
EPIFUSE_DEVICE bool find_group_of_tile(const Parameters& p, int row_tile, GroupPlace<Plan::places>& found) {
  return find_group<Plan>(
      p,
      [row_tile](const GroupPlace<Plan::places>& at) {
        return at.first_tile <= row_tile && row_tile - at.first_tile < at.tiles;
      },
      found);
}

template <class Plan, class Parameters>
EPIFUSE_DEVICE GroupPlace<Plan::places> find_group_by_index(const Parameters& p, int group) {
  GroupPlace<Plan::places> found{};
  find_group<Plan>(
      p, [group](const GroupPlace<Plan::places>& at) { return at.group == group; }, found);
  return found;
}

}  // namespace epifuse
