// A tile's scales from shared memory into the buffer `y.scale`, in each layout (docs/language.md, S7), with the padding
// that belongs to the tile.
//
//   rows           the data's order, blocks for elements
//   columns_tma    the last two dimensions swapped; the pitch is a multiple of 4, what fills it up is zero
//   blocked_128x4  512 bytes for each 128 outer indices by 4 blocks; all of every tile is written
//
// R counts blocks along rows, C along columns; `transposed` says that the data's last dimension is rows.
#pragma once

#include "epilogue/block_scales.cuh"

namespace epifuse {

enum class ScaleLayout { rows, columns_tma, blocked_128x4 };

// Where the tile's scales lie. Indices count from the group's start where each group (or batch) has a matrix of its
// own.
struct ScalePlace {
  void* base;
  int pitch;        // elements; blocked_128x4: tiles along C
  i64 group_first;  // element from which a matrix of its own starts, 0 otherwise
  Rows rows;        // in the place whose groups begin with whole scales, or whole tiles of them
  int first_row;    // of the tile in its group
  int valid_rows;
  int first_column;  // of the tile's part
  int columns;       // of the part
  int all_blocks;    // along C, of the whole buffer
  bool last;         // the last part of the buffer: what pads C is its tile's
};

template <ScaleLayout layout, bool transposed, bool along_rows, class Tile>
EPIFUSE_DEVICE i64 scale_offset(const ScalePlace& at, int R, int C) {
  if constexpr (layout == ScaleLayout::rows) {
    return transposed ? i64{C} * at.pitch + R : i64{R} * at.pitch + C;
  } else if constexpr (layout == ScaleLayout::columns_tma) {
    return transposed ? i64{R} * at.pitch + C : i64{C} * at.pitch + R;
  } else if constexpr (along_rows) {
    // Rows are the blocked dimension: each group a matrix of its own.
    constexpr int tile_rows_of_scales = 4 * Tile::block_rows;
    const int group_first = at.rows.first - at.first_row, stored = at.rows.limit + at.first_row;
    const int tiles = (stored + tile_rows_of_scales - 1) / tile_rows_of_scales, k = R - group_first / Tile::block_rows;
    const i64 tile = i64{group_first / tile_rows_of_scales} * at.pitch + (C / 128) * tiles + k / 4;
    return tile * 512 + C % 32 * 16 + C % 128 / 32 * 4 + k % 4;
  } else {
    return (i64{R / 128} * at.pitch + C / 4) * 512 + R % 32 * 16 + R % 128 / 32 * 4 + C % 4;
  }
}

// By one warpgroup, behind a barrier that follows the last put(). column_of(column): where a column of the part lies
// among those of the buffer.
template <ScaleLayout layout, bool transposed, bool along_rows, class ScaleCode, class Tile, class ColumnOf>
EPIFUSE_DEVICE void store_scales(const Tile& tile, const ScalePlace& at, const ColumnOf& column_of) {
  // Whether neighbours along C are neighbours in memory.
  constexpr bool C_is_minor = layout == ScaleLayout::rows          ? !transposed
                              : layout == ScaleLayout::columns_tma ? transposed
                                                                   : !along_rows;
  constexpr int nR = Tile::rows_of_blocks, nC = Tile::columns_of_blocks;
  const int thread = ptx::thread_index_now() & 127;
  const int first_R = at.rows.first / Tile::block_rows;
  // Blocks of the tile that the buffer has, and those with rows that exist.
  const int stored = (at.rows.limit + Tile::block_rows - 1) / Tile::block_rows;
  const int existing = (at.valid_rows + Tile::block_rows - 1) / Tile::block_rows;
  const auto store = [&](int R, int C, u32 code) {
    u8* to = static_cast<u8*>(at.base) +
             (at.group_first + scale_offset<layout, transposed, along_rows, Tile>(at, R, C)) * sizeof(ScaleCode);
    if constexpr (sizeof(ScaleCode) == 1)
      ptx::store_8(true, to, code);
    else
      ptx::store_32(true, to, code);
  };
  for (int i = thread; i < nR * nC; i += 128) {
    const int r = C_is_minor ? i / nC : i % nR, c = C_is_minor ? i % nC : i / nR;
    const int column = at.first_column + c * Tile::block_columns;
    if (r >= stored || column >= at.columns) continue;
    store(first_R + r, column_of(column) / Tile::block_columns, r < existing ? tile.get(r, c) : 0);
  }
  // What fills up the last tile of scales, or the pitch.
  constexpr int unit = layout == ScaleLayout::rows            ? 1
                       : layout == ScaleLayout::blocked_128x4 ? (along_rows ? 128 : 4)
                       : transposed                           ? 4
                                                              : 1;
  if constexpr (unit != 1) {
    if (!at.last || at.first_column >= at.columns || at.first_column + Tile::columns < at.columns) return;
    const int pads = (unit - at.all_blocks % unit) % unit;
    for (int i = thread; i < nR * pads; i += 128)
      if (i % nR < stored) store(first_R + i % nR, at.all_blocks + i / nR, 0);
  }
}

}  // namespace epifuse
