// Where the groups of a grouped dimension lie. Each block finds out by itself, once, from the sizes in device memory;
// nothing on the host depends on them. A group starts at start(e) = round_up(end(e - 1), alignment), or at the e-th
// slot; an aligned form of the dimension has the same rows at other places.
//
// Sizes that no buffer can hold are cut, so that no access leaves the capacity.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::pointwise {

constexpr int warp_size = 32;

EPIFUSE_DEVICE i64 round_up(i64 value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

EPIFUSE_DEVICE i64 between(i64 value, i64 low, i64 high) { return value < low ? low : value > high ? high : value; }

// The sum over the lanes up to this one, of all 32.
EPIFUSE_DEVICE i64 scan_lanes(i64 value, int lane) {
#pragma unroll
  for (int distance = 1; distance < warp_size; distance *= 2) {
    const i64 other = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

// The sizes are where each group ends, or how many rows it has. One warp; a group is always the same lane's.
template <class Size, bool are_counts>
EPIFUSE_DEVICE void lay_out_groups(const void* sizes, int groups, int capacity, int alignment, int* counts,
                                   int* starts) {
  if (threadIdx.x >= warp_size) return;
  const Size* size = static_cast<const Size*>(sizes);
  const int lane = static_cast<int>(threadIdx.x);
  i64 before = 0;  // rows of the groups that earlier rounds have seen, with their gaps
  for (int first = 0; first < groups; first += warp_size) {
    const int group = first + lane;
    i64 start, rows;
    if constexpr (are_counts) {
      rows = group < groups ? between(size[group], 0, capacity) : 0;
      const i64 stored = round_up(rows, alignment), upto = scan_lanes(stored, lane);
      start = before + upto - stored;
      before += __shfl_sync(~0u, upto, warp_size - 1);
    } else {
      const i64 previous = group > 0 && group < groups ? between(size[group - 1], 0, capacity) : 0;
      start = round_up(previous, alignment);
      rows = group < groups ? size[group] - start : 0;
    }
    start = between(start, 0, capacity);
    if (group >= groups) continue;
    starts[group] = static_cast<int>(start);
    counts[group] = static_cast<int>(between(rows, 0, capacity - start));
  }
}

// The same for groups that have a slot of so many rows each.
template <class Size, bool are_counts>
EPIFUSE_DEVICE void lay_out_slots(const void* sizes, int groups, int capacity, int slot, int* counts, int* starts) {
  if (threadIdx.x >= warp_size) return;
  const Size* size = static_cast<const Size*>(sizes);
  for (int group = static_cast<int>(threadIdx.x); group < groups; group += warp_size) {
    const i64 start = i64{group} * slot, first = between(start, 0, capacity);
    const i64 rows = are_counts ? static_cast<i64>(size[group]) : between(size[group], 0, capacity) - start;
    starts[group] = static_cast<int>(first);
    counts[group] = static_cast<int>(between(rows, 0, between(slot, 0, capacity - first)));
  }
}

// The starts of the same groups, one behind the other, each at a multiple of the alignment.
EPIFUSE_DEVICE void lay_out_place(const int* counts, int groups, int alignment, int* starts) {
  if (threadIdx.x >= warp_size) return;
  const int lane = static_cast<int>(threadIdx.x);
  i64 before = 0;
  for (int first = 0; first < groups; first += warp_size) {
    const int group = first + lane;
    const i64 stored = group < groups ? round_up(counts[group], alignment) : 0, upto = scan_lanes(stored, lane);
    if (group < groups) starts[group] = static_cast<int>(before + upto - stored);
    before += __shfl_sync(~0u, upto, warp_size - 1);
  }
}

// The tiles of scales of a group that starts at a place and is stored with its gap, but not beyond the capacity.
EPIFUSE_DEVICE int scale_tiles(int count, int start, int alignment, int capacity, int unit) {
  const i64 stored = between(round_up(count, alignment), 0, i64{capacity} - start);
  return static_cast<int>((stored + unit - 1) / unit);
}

// Where each group's tiles start: one group behind the other, whole tiles each.
EPIFUSE_DEVICE void lay_out_tiles(const int* counts, const int* starts, int groups, int alignment, int capacity,
                                  int unit, int* tiles) {
  if (threadIdx.x >= warp_size) return;
  const int lane = static_cast<int>(threadIdx.x);
  i64 before = 0;
  for (int first = 0; first < groups; first += warp_size) {
    const int group = first + lane;
    const i64 own = group < groups ? scale_tiles(counts[group], starts[group], alignment, capacity, unit) : 0;
    const i64 upto = scan_lanes(own, lane);
    if (group < groups) tiles[group] = static_cast<int>(before + upto - own);
    before += __shfl_sync(~0u, upto, warp_size - 1);
  }
}

// What lies at a place.
struct Row {
  int group = 0;
  int row = 0;     // in the group
  int count = 0;   // rows that the group has
  int stored = 0;  // with its gap

  EPIFUSE_DEVICE bool outside() const { return row >= stored; }
};

// The last group that starts at the place or before it. Of empty groups and the one behind them that is the one behind
// them, which starts there too.
EPIFUSE_DEVICE int group_at(const int* starts, int groups, int place) {
  int low = 0, high = groups;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (starts[middle] <= place)
      low = middle;
    else
      high = middle;
  }
  return low;
}

EPIFUSE_DEVICE Row row_at(const int* starts, const int* counts, int groups, int alignment, int place) {
  Row row;
  row.group = group_at(starts, groups, place);
  row.row = place - starts[row.group];
  row.count = counts[row.group];
  row.stored = static_cast<int>(round_up(row.count, alignment));
  return row;
}

}  // namespace epifuse::pointwise
