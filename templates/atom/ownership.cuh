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

struct Lane {
  int l;     // 0..3: columns 8l .. 8l+7 of each block
  int q;     // 0..7: rows 4q .. 4q+3 of the warp's 32
  int warp;  // 0..3 in the warpgroup

  static EPIFUSE_DEVICE Lane now() {
    const int index = ptx::thread_index_now() & 127;
    return {index & 3, (index >> 2) & 7, index >> 5};
  }
  EPIFUSE_DEVICE int first_row() const { return 32 * warp + 4 * q; }  // in the tile
  EPIFUSE_DEVICE int first_column() const { return 8 * l; }           // in the block
};

// The thread's part of a 32 x 32 block: rows first_row + i, columns first_column + c.
struct Block {
  float v[own_rows][own_columns];
};

}  // namespace epifuse
