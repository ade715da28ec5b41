// Where a thread stands in the epilogue of a tile, and masks for what does not exist.
#pragma once

#include "atom/ownership.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/tile.cuh"

namespace epifuse {

// Barriers 6 and 7 are of the two consumer warpgroups' epilogues, 8 of both together.
EPIFUSE_DEVICE void warpgroup_sync() { ptx::named_barrier_sync(5 + (ptx::thread_index_now() >> 7), 128); }
EPIFUSE_DEVICE void both_warpgroups_sync() { ptx::named_barrier_sync(8, 256); }

// The thread's 8 columns of one block: the first of them, and whether they exist. Column counts are multiples of 8, so
// a thread has all of its columns or none; a block that begins inside the buffer exists, if only in part. In natural
// order they are multiples of 32.
template <ColumnOrder order>
struct OwnColumnsOf {
  int first;
  bool exist;
  bool block_exists;
  int l;

  template <RowOrder rows>
  EPIFUSE_DEVICE OwnColumnsOf(const LaneOf<rows>& lane, int block_first, int columns)
      : first(block_first + lane.template first_column<order>()),
        exist(first < columns),
        block_exists(block_first < columns),
        l(lane.l) {}

  static EPIFUSE_DEVICE constexpr int step(int c) { return column_step<order>(c); }
  // Where the eight neighbours lie that the thread stores in row order: `column` is where its first column does.
  EPIFUSE_DEVICE int eight(int column) const { return order == ColumnOrder::consecutive ? column : column + 6 * l; }
};

using OwnColumns = OwnColumnsOf<ColumnOrder::consecutive>;

// The thread's 4 rows in one place (a buffer whose rows are the tile's rows): index of the first, and how many rows,
// counted from it, may be written there.
template <RowOrder order>
struct OwnRowsOf {
  int first;
  int count;     // may be negative or exceed the tile
  int existing;  // of these, rows that exist; the others are a group's gap

  EPIFUSE_DEVICE OwnRowsOf(const LaneOf<order>& lane, const Rows& rows, int valid_rows = tile_rows)
      : first(rows.first + lane.first_row()),
        count(rows.limit - lane.first_row()),
        existing(valid_rows - lane.first_row()) {}
  EPIFUSE_DEVICE bool has(int i) const { return step(i) < count; }
  EPIFUSE_DEVICE bool exists(int i) const { return step(i) < existing; }
  static EPIFUSE_DEVICE constexpr int step(int i) { return LaneOf<order>::step(i); }
};

using OwnRows = OwnRowsOf<RowOrder::consecutive>;

// Zero in every row that does not exist, by selection: what was computed there may be NaN.
template <RowOrder order>
EPIFUSE_DEVICE void clear_missing_rows(Block& block, const LaneOf<order>& lane, int valid_rows) {
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const bool exists = lane.first_row() + lane.step(i) < valid_rows;
#pragma unroll
    for (int c = 0; c < own_columns; ++c) block.v[i][c] = exists ? block.v[i][c] : 0.f;
  }
}

EPIFUSE_DEVICE void clear_missing_columns(Block& block, const OwnColumns& columns) {
#pragma unroll
  for (int i = 0; i < own_rows; ++i)
#pragma unroll
    for (int c = 0; c < own_columns; ++c) block.v[i][c] = columns.exist ? block.v[i][c] : 0.f;
}

// Columns that split(v, piece) dealt out: where column n of half `part` lies in v. n is a multiple of 8.
template <int piece>
EPIFUSE_DEVICE int dealt_column(int n, int part) {
  return n / piece * (2 * piece) + part * piece + n % piece;
}

}  // namespace epifuse
