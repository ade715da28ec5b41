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

constexpr int tile_rows = 128;     // rows of a tile; a warp owns 32
constexpr int block_columns = 32;  // columns of a block
constexpr int own_rows = 4;        // of a block, by one thread
constexpr int own_columns = 8;

// Rows that are contiguous in memory (an MN-major operand) cannot be permuted by a box: such tiles keep the natural
// order of wgmma's fragments, where a thread's rows lie 8 and 64 apart. Columns then are put in order by shuffles
// (tile/accumulators.cuh, straighten).
enum class RowOrder { consecutive, natural };

template <RowOrder order>
struct LaneOf {
  int l;     // 0..3: columns 8l .. 8l+7 of each block
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
  EPIFUSE_DEVICE int first_column() const { return 8 * l; }  // in the block
};

using Lane = LaneOf<RowOrder::consecutive>;

// The thread's part of a 32 x 32 block: rows first_row + step(i), columns first_column + c.
struct Block {
  float v[own_rows][own_columns];
};

}  // namespace epifuse
