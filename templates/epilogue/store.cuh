// Sinks for plain types: a block's values into a buffer in row order, or transposed. Stores go straight from registers;
// each covers whole 32-byte sectors.
#pragma once

#include "epilogue/place.cuh"
#include "epilogue/storage.cuh"

namespace epifuse {

// buffer[row, column], pitch in elements.
template <class Storage>
EPIFUSE_DEVICE void store_rows(const Block& block, void* base, i64 pitch, const OwnRows& rows,
                               const OwnColumns& columns, int column) {
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + column) * Storage::bytes;
#pragma unroll
  for (int i = 0; i < own_rows; ++i)
    store_8_values<Storage>(columns.exist && rows.has(i), ptx::offset(at, i, static_cast<u32>(pitch) * Storage::bytes),
                            block.v[i]);
}

// Two halves that split(v, 1) deals out one by one, back into v.
template <class Storage>
EPIFUSE_DEVICE void store_rows_alternating(const Block& even, const Block& odd, void* base, i64 pitch,
                                           const OwnRows& rows, const OwnColumns& columns) {
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + 2 * columns.first) * Storage::bytes;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const bool on = columns.exist && rows.has(i);
    u8* to = ptx::offset(at, i, static_cast<u32>(pitch) * Storage::bytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) v[c] = (c & 1 ? odd : even).v[i][4 * half + c / 2];
      store_8_values<Storage>(on, to + 8 * half * Storage::bytes, v);
    }
  }
}

// buffer[column, row], pitch in elements. Rows that do not exist must be zero in the block where the gap is written.
// aligned: the place starts at multiples of 4, and so does its limit; otherwise rows go one by one.
template <class Storage, bool aligned>
EPIFUSE_DEVICE void store_transposed(const Block& block, void* base, i64 pitch, const OwnRows& rows,
                                     const OwnColumns& columns, int column) {
  u8* at = static_cast<u8*>(base) + (column * pitch + rows.first) * Storage::bytes;
#pragma unroll
  for (int c = 0; c < own_columns; ++c) {
    u8* to = ptx::offset(at, c, static_cast<u32>(pitch) * Storage::bytes);
    if constexpr (aligned) {
      store_4_values<Storage>(columns.exist && rows.has(0), to, block.v[0][c], block.v[1][c], block.v[2][c],
                              block.v[3][c]);
    } else {
#pragma unroll
      for (int i = 0; i < own_rows; i += 2)
        store_2_single_values<Storage>(columns.exist && rows.has(i), columns.exist && rows.has(i + 1),
                                       to + i * Storage::bytes, block.v[i][c], block.v[i + 1][c]);
    }
  }
}

}  // namespace epifuse
