// Who owns what, once rows and columns have been permuted on their way into shared memory (tile/operands.cuh).
//
// In the order of wgmma's own fragment a quad shares a row and a thread's rows lie 8 apart, so that scales of 32 rows
// or 32 columns would need shared memory. The boxes therefore put tile row 32w + 4q + 2b + h into row 64b + 16w + 8h +
// q of the stage, and weight row 32J + 8l + 2j + e into row 32J + 8j + 2l + e. Then warp w owns rows 32w .. 32w+31, and
// lane 4q + l owns the 4 rows from 4q and the 8 columns from 8l of each 32 x 32 block: scales in both directions need
// only shuffles, and stores are whole 32-byte sectors.
#pragma once

#include "ptx/sync.cuh"

namespace epifuse {

constexpr int tile_rows = 128;     // rows of a tile
constexpr int warp_rows = 32;      // of them, in consecutive order, by one warp
constexpr int block_columns = 32;  // columns of a block
constexpr int own_rows = 4;        // of a block, by one thread
constexpr int own_columns = 8;

// Rows that are contiguous in memory (an MN-major operand) cannot be permuted by a box: such tiles keep the natural
// order of wgmma's fragments, where a thread's rows lie 8 and 64 apart.
enum class RowOrder { consecutive, natural };

// Nor can columns that are contiguous in memory: a thread then has columns 8j + 2l + {0, 1} of a block, j = 0..3. An
// epilogue either works in that order, and puts right what it stores once that is packed (epilogue/quad.cuh), or has
// the accumulators put right by shuffles first (tile/accumulators.cuh, straighten).
enum class ColumnOrder { consecutive, natural };

// Where the thread's column c lies, counted from its first.
template <ColumnOrder order>
EPIFUSE_DEVICE constexpr int column_step(int c) {
  return order == ColumnOrder::consecutive ? c : 8 * (c >> 1) + (c & 1);
}

template <RowOrder order>
struct LaneOf {
  int l;     // 0..3: columns 8l .. 8l+7 of each block, in consecutive order
  int q;     // 0..7
  int warp;  // 0..3 in the warpgroup

  static EPIFUSE_DEVICE LaneOf now() {
    const int index = ptx::thread_index_now() & 127;
    return {index & 3, (index >> 2) & 7, index >> 5};
  }
  // The thread's rows in the tile are first_row() + step(i), i = 0..3.
  EPIFUSE_DEVICE int first_row() const { return order == RowOrder::consecutive ? 32 * warp + 4 * q : 16 * warp + q; }
  static EPIFUSE_DEVICE constexpr int step(int i) {
    return order == RowOrder::consecutive ? i : 8 * (i & 1) + 64 * (i >> 1);
  }
  // In the block.
  template <ColumnOrder columns = ColumnOrder::consecutive>
  EPIFUSE_DEVICE int first_column() const {
    return columns == ColumnOrder::consecutive ? 8 * l : 2 * l;
  }
};

using Lane = LaneOf<RowOrder::consecutive>;

// The thread's part of a 32 x 32 block: rows first_row + step(i), columns first_column + column_step(c).
struct Block {
  float v[own_rows][own_columns];
};

}  // namespace epifuse
