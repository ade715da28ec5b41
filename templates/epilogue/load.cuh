// Epilogue inputs that do not fill the tile: one value for each group, row or column. Every address is clamped into the
// buffer and the load is unconditional: a load under a condition would keep its registers live over the main loop.
#pragma once

#include "epilogue/place.cuh"
#include "epilogue/storage.cuh"

namespace epifuse {

template <class Storage>
EPIFUSE_DEVICE float load_1_value(const void* base, i64 index) {
  if constexpr (Storage::bytes == 4) {
    return __ldg(static_cast<const float*>(base) + index);
  } else if constexpr (Storage::bytes == 2) {
    return Codec<Storage>::low(__ldg(static_cast<const u16*>(base) + index));
  } else {
    return ptx::f16_low(Codec<Storage>::widen2(__ldg(static_cast<const u8*>(base) + index)));
  }
}

template <class Storage>
EPIFUSE_DEVICE void load_pair(float& a, float& b, const u8* from) {
  if constexpr (Storage::bytes == 4) {
    const uint2 bits = ptx::load_64(from);
    a = __uint_as_float(bits.x), b = __uint_as_float(bits.y);
  } else if constexpr (Storage::bytes == 2) {
    const u32 bits = __ldg(reinterpret_cast<const u32*>(from));
    a = Codec<Storage>::low(bits), b = Codec<Storage>::high(bits);
  } else {
    const u32 wide = Codec<Storage>::widen2(__ldg(reinterpret_cast<const u16*>(from)));
    a = ptx::f16_low(wide), b = ptx::f16_high(wide);
  }
}

// One value for each of the thread's rows.
template <class Storage, RowOrder order>
EPIFUSE_DEVICE void load_rows(float (&v)[own_rows], const void* base, const LaneOf<order>& lane, const Rows& rows,
                              int all_rows) {
#pragma unroll
  for (int i = 0; i < own_rows; ++i)
    v[i] = load_1_value<Storage>(base, min(rows.first + lane.first_row() + lane.step(i), all_rows - 1));
}

// One value for each of the thread's columns: row `row` of a [rows, columns] buffer with this pitch, in elements.
// `first` is a multiple of 8, and so is the count of columns.
template <class Storage, ColumnOrder order = ColumnOrder::consecutive>
EPIFUSE_DEVICE void load_columns(float (&v)[own_columns], const void* base, i64 row, i64 pitch, int first, bool exist) {
  const u8* from = static_cast<const u8*>(base) + (row * pitch + (exist ? first : 0)) * Storage::bytes;
  if constexpr (order == ColumnOrder::natural) {
#pragma unroll
    for (int c = 0; c < own_columns; c += 2)
      load_pair<Storage>(v[c], v[c + 1], from + (exist ? column_step<order>(c) : 0) * Storage::bytes);
  } else if constexpr (Storage::bytes == 4) {
    Codec<f32>::unpack8(ptx::load_128(from), ptx::load_128(from + 16), v);
  } else if constexpr (Storage::bytes == 2) {
    unpack8<Storage>(ptx::load_128(from), v);
  } else {
    unpack8<Storage>(ptx::load_64(from), v);
  }
}

// Columns of one half of a buffer whose columns split(v, 1) deals out one by one.
template <class Storage>
EPIFUSE_DEVICE void load_columns_alternating(float (&v)[own_columns], const void* base, i64 row, i64 pitch, int first,
                                             int part, bool exist) {
  float both[2][own_columns];
  load_columns<Storage>(both[0], base, row, pitch, 2 * first, exist);
  load_columns<Storage>(both[1], base, row, pitch, 2 * first + 8, exist);
#pragma unroll
  for (int c = 0; c < own_columns; ++c) v[c] = both[c / 4][2 * (c % 4) + part];
}

}  // namespace epifuse
