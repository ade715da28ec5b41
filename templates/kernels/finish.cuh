// Launches behind the GEMM's that make results of the partials of epilogue/reduce.cuh, one for each reduced output. The
// order in which partials are joined is fixed: it follows from the shape and the group sizes alone.
//
// Plan        that of TileWalk, for the rows of the result
// Depth       the same for a contraction that lies in groups, whose empty groups `+=` leaves alone; otherwise void
// Parameters  group_sizes, groups, capacity, batch_rows (uniform groups), partials, partial_pitch (as in reduce.cuh),
//             out (with `pointers` an array of buffers, one for each group), and blocks (of 32 columns) or columns
#pragma once

#include "epilogue/reduce.cuh"
#include "pipeline/group_search.cuh"
#include "ptx/launch.cuh"

namespace epifuse {

constexpr int finish_rows_threads = 1024;
constexpr int finish_columns_threads = 256;
constexpr int finish_tiles_threads = 1024;

// Columns that a CTA finishes: of one group, which has few row tiles, or of all rows.
EPIFUSE_DEVICE constexpr int finished_columns(bool per_group) { return per_group ? 256 : 32; }

// A thread loads so many partials at once; the last ones of a run again and again, which then count nothing.
constexpr int finish_at_once = 8;

// load(i) of i = begin, begin + step, ... below end, joined in this order.
template <class R, class Index, class Load>
EPIFUSE_DEVICE float join_run(Index begin, Index end, int step, Load load) {
  float result = 0;
  for (Index first = begin; first < end; first += finish_at_once * step) {
    float v[finish_at_once];
#pragma unroll
    for (int i = 0; i < finish_at_once; ++i) v[i] = load(min(first + i * step, end - 1));
#pragma unroll
    for (int i = 0; i < finish_at_once; ++i) result = R::join(result, first + i * step < end ? v[i] : 0.f);
  }
  return result;
}

template <class Storage, bool accumulate>
EPIFUSE_DEVICE void finish_value(void* out, i64 index, float value, bool exists = true) {
  u8* to = static_cast<u8*>(out) + index * Storage::bytes;
  if constexpr (accumulate) value = __fadd_rn(load_old_value<Storage>(exists, to), value);
  store_1_value<Storage>(true, to, value);
}

template <bool pointers, class Parameters>
EPIFUSE_DEVICE void* result_of(const Parameters& p, int group) {
  if constexpr (pointers)
    return static_cast<void* const*>(p.out)[group];
  else
    return p.out;
}

template <class Depth>
struct Contraction {
  template <class Parameters>
  static EPIFUSE_DEVICE bool is_empty(const Parameters& p, int group) {
    return find_group_by_index<Depth>(p, group).rows == 0;
  }
};
template <>
struct Contraction<void> {
  template <class Parameters>
  static EPIFUSE_DEVICE bool is_empty(const Parameters&, int) {
    return false;
  }
};

// out[row] of a place, by a CTA for each row tile; the place's gaps become zero.
template <class Plan, class Depth, class Storage, Reduction reduction, bool accumulate, bool pointers, int place,
          class Parameters>
EPIFUSE_DEVICE void finish_rows(const Parameters& p) {
  ptx::wait_for_launches_before();
  using R = Reduce<reduction>;
  constexpr int shares = finish_rows_threads / tile_rows;  // threads of a row, each for a stretch of the blocks
  __shared__ float parts[shares][tile_rows];
  const int row_tile = static_cast<int>(blockIdx.x);
  GroupPlace<Plan::places> group;
  if (!find_group_of_tile<Plan>(p, row_tile, group)) return;
  if (accumulate && Contraction<Depth>::is_empty(p, group.group)) return;

  const int row_in_tile = static_cast<int>(threadIdx.x) % tile_rows, share = static_cast<int>(threadIdx.x) / tile_rows;
  const int row = (row_tile - group.first_tile) * tile_rows + row_in_tile;
  const int width = (p.blocks + shares - 1) / shares;
  const int end = row < group.rows ? min((share + 1) * width, p.blocks) : 0;
  const float* partials = static_cast<const float*>(p.partials) + group.start[0] + row;
  float result =
      join_run<R>(share * width, end, 1, [&](int block) { return __ldg(partials + i64{block} * p.partial_pitch); });
  parts[share][row_in_tile] = result;
  __syncthreads();
  if (share != 0) return;
#pragma unroll
  for (int other = 1; other < shares; ++other) result = R::join(result, parts[other][row_in_tile]);

  int stored = round_up(group.rows, Plan::alignment(place));
  if (place == 0) stored = min(stored, max(group.rows, p.capacity - group.start[0]));
  if (row < stored)
    finish_value<Storage, accumulate>(result_of<pointers>(p, group.group),
                                      (Plan::local(place) ? 0 : group.start[place]) + row, result, row < group.rows);
}

// out[group, column], or out[column] over all rows; by a CTA for so many columns (of one group). Four neighbours are a
// thread's, and the row tiles are dealt out over the threads of a column.
template <class Plan, class Depth, class Storage, Reduction reduction, bool accumulate, bool pointers, bool per_group,
          class Parameters>
EPIFUSE_DEVICE void finish_columns(const Parameters& p) {
  ptx::wait_for_launches_before();
  using R = Reduce<reduction>;
  constexpr int width = finished_columns(per_group), lanes = width / 4, shares = finish_columns_threads / lanes;
  __shared__ float parts[shares][width];
  const int chunks = (p.columns + width - 1) / width;
  const int group = per_group ? static_cast<int>(blockIdx.x) / chunks : p.groups - 1;
  const int first_column = (static_cast<int>(blockIdx.x) - (per_group ? group * chunks : 0)) * width;
  const GroupPlace<Plan::places> place = find_group_by_index<Plan>(p, group);
  const int begin = per_group ? place.first_tile : 0, end = place.first_tile + place.tiles;
  if (accumulate && (begin == end || (per_group && Contraction<Depth>::is_empty(p, group)))) return;

  const int lane = static_cast<int>(threadIdx.x) % lanes, share = static_cast<int>(threadIdx.x) / lanes;
  const int column = first_column + 4 * lane;
  float result[4] = {};
  if (column < p.columns) {
    const float* partials = static_cast<const float*>(p.partials) + column;
    constexpr int at_once = 4;  // loads of 16 bytes
    for (int first = begin + share; first < end; first += at_once * shares) {
      uint4 v[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        v[i] = ptx::load_128(partials + i64{min(first + i * shares, end - 1)} * p.partial_pitch);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const bool on = first + i * shares < end;
        result[0] = R::join(result[0], on ? __uint_as_float(v[i].x) : 0.f);
        result[1] = R::join(result[1], on ? __uint_as_float(v[i].y) : 0.f);
        result[2] = R::join(result[2], on ? __uint_as_float(v[i].z) : 0.f);
        result[3] = R::join(result[3], on ? __uint_as_float(v[i].w) : 0.f);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) parts[share][4 * lane + i] = result[i];
  __syncthreads();
#pragma unroll
  for (int half = shares / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (share < half)
        parts[share][4 * lane + i] = R::join(parts[share][4 * lane + i], parts[share + half][4 * lane + i]);
    __syncthreads();
  }
  const int own = static_cast<int>(threadIdx.x);  // for stores of neighbours by neighbours
  if (own < width && first_column + own < p.columns)
    finish_value<Storage, accumulate>(result_of<pointers>(p, group),
                                      (per_group && !pointers ? i64{group} * p.columns : 0) + first_column + own,
                                      parts[0][own]);
}

// out[group], or out over all groups; by a CTA for each.
template <class Plan, class Depth, class Storage, Reduction reduction, bool accumulate, bool pointers, bool per_group,
          class Parameters>
EPIFUSE_DEVICE void finish_tiles(const Parameters& p) {
  ptx::wait_for_launches_before();
  using R = Reduce<reduction>;
  constexpr int warps = finish_tiles_threads / 32;
  __shared__ float parts[warps];
  const int group = per_group ? static_cast<int>(blockIdx.x) : p.groups - 1;
  const GroupPlace<Plan::places> place = find_group_by_index<Plan>(p, group);
  const int begin = per_group ? place.first_tile : 0, end = place.first_tile + place.tiles;
  if (accumulate && (begin == end || (per_group && Contraction<Depth>::is_empty(p, group)))) return;

  const float* partials = static_cast<const float*>(p.partials) + i64{begin} * p.partial_pitch;
  const i64 count = i64{end - begin} * p.partial_pitch;
  float result = join_run<R>(i64{threadIdx.x}, count, finish_tiles_threads, [&](i64 i) { return __ldg(partials + i); });
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) result = R::join(result, __shfl_xor_sync(~0u, result, mask));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = result;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  result = parts[threadIdx.x];
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) result = R::join(result, __shfl_xor_sync(~0u, result, mask));
  if (threadIdx.x == 0)
    finish_value<Storage, accumulate>(result_of<pointers>(p, group), per_group && !pointers ? group : 0, result);
}

}  // namespace epifuse
