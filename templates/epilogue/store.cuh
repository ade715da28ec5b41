// Sinks for plain types: a block's values into a buffer in row order, or transposed. Stores go straight from registers;
// in consecutive row order each covers whole 32-byte sectors.
//
// accumulate (`+=`; f32, bf16 and f16): the old values of rows that exist are read (a gap becomes zero as with `=`),
// the new ones added in f32, and the sums rounded once. Memory is far away: in row order the old values of the next
// block are under way while one is stored; elsewhere several loads are, before the first of them is used. Left to the
// L2 cache, the additions take longer where memory is the limit: it adds about 0.27 * 10^12 f32 in a second.
#pragma once

#include "atom/quad.cuh"
#include "epilogue/place.cuh"
#include "epilogue/quad.cuh"
#include "epilogue/storage.cuh"

namespace epifuse {

// `count` runs of eight neighbours, each on its own condition; `old`: whether there is something to add to.
template <class Storage, int count>
EPIFUSE_DEVICE void add_eights(const bool (&on)[count], const bool (&old)[count], u8* const (&to)[count],
                               const float (&v)[count][8]) {
  float sums[count][8];
#pragma unroll
  for (int i = 0; i < count; ++i) load_8_old_values<Storage>(old[i], to[i], sums[i]);
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int c = 0; c < 8; ++c) sums[i][c] = __fadd_rn(sums[i][c], v[i][c]);
    store_8_values<Storage>(on[i], to[i], sums[i]);
  }
}

// Columns in natural order. A quad is to fill sectors of 32 bytes: pairs of f32 do; pairs of 16-bit values do once two
// lanes have exchanged one of them, and each has four neighbours; bytes are put in order.
template <class Storage, RowOrder order>
EPIFUSE_DEVICE void store_rows(const Block& block, void* base, i64 pitch, const OwnRowsOf<order>& rows,
                               const OwnColumnsOf<ColumnOrder::natural>& columns, int column) {
  using C = Codec<Storage>;
  const int first = Storage::bytes == 4   ? column
                    : Storage::bytes == 2 ? column + 6 * (columns.l & 1)
                                          : columns.eight(column);
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + first) * Storage::bytes;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float(&v)[own_columns] = block.v[i];
    const bool on = columns.exist && rows.has(i);
    u8* row = ptx::offset(at, rows.step(i), static_cast<u32>(pitch) * Storage::bytes);
    if constexpr (Storage::bytes == 4) {
#pragma unroll
      for (int c = 0; c < own_columns; c += 2)
        ptx::store_64(on, row + 4 * columns.step(c), __float_as_uint(v[c]), __float_as_uint(v[c + 1]));
    } else if constexpr (Storage::bytes == 2) {
#pragma unroll
      for (int c = 0; c < own_columns; c += 4) {
        u32 a = C::pack2(v[c], v[c + 1]), b = C::pack2(v[c + 2], v[c + 3]);
        exchange(a, b, columns.l & 1, 1);
        ptx::store_64(on, row + 2 * columns.step(c), a, b);
      }
    } else {
      u32 low = C::pack2(v[0], v[1]) | C::pack2(v[2], v[3]) << 16;
      u32 high = C::pack2(v[4], v[5]) | C::pack2(v[6], v[7]) << 16;
      straighten_codes(low, high, columns.l);
      ptx::store_64(on, row, low, high);
    }
  }
}

// buffer[row, column], pitch in elements.
template <class Storage, bool accumulate = false, RowOrder order>
EPIFUSE_DEVICE void store_rows(const Block& block, void* base, i64 pitch, const OwnRowsOf<order>& rows,
                               const OwnColumns& columns, int column) {
  constexpr int at_once = !accumulate ? 1 : Storage::bytes == 4 ? 2 : 4;
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + column) * Storage::bytes;
#pragma unroll
  for (int first = 0; first < own_rows; first += at_once) {
    bool on[at_once], old[at_once];
    u8* to[at_once];
    float v[at_once][8];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      on[i] = columns.exist && rows.has(first + i);
      old[i] = columns.exist && rows.exists(first + i);
      to[i] = ptx::offset(at, rows.step(first + i), static_cast<u32>(pitch) * Storage::bytes);
#pragma unroll
      for (int c = 0; c < 8; ++c) v[i][c] = block.v[first + i][c];
    }
    if constexpr (accumulate)
      add_eights<Storage>(on, old, to, v);
    else
      store_8_values<Storage>(on[0], to[0], v[0]);
  }
}

// Old values in row order, `ahead` of the thread's rows at once: while they are under way, the rows before are stored.
template <class Storage, int ahead>
struct OldValues {
  float v[ahead][own_columns];

  // From row `first` on of the block at `columns`, which lie at `column` of the buffer. Nothing is read where `on` is
  // false.
  template <RowOrder order>
  EPIFUSE_DEVICE void load(bool on, void* base, i64 pitch, const OwnRowsOf<order>& rows, const OwnColumns& columns,
                           int column, int first = 0) {
    u8* at = static_cast<u8*>(base) + (rows.first * pitch + column) * Storage::bytes;
#pragma unroll
    for (int i = 0; i < ahead; ++i)
      load_8_old_values<Storage>(on && columns.exist && rows.exists(first + i),
                                 ptx::offset(at, rows.step(first + i), static_cast<u32>(pitch) * Storage::bytes), v[i]);
  }

  // Adds the block and stores it where `on`; what is loaded then is of the block at `next`, where there is `more`.
  template <RowOrder order>
  EPIFUSE_DEVICE void add(bool on, const Block& block, void* base, i64 pitch, const OwnRowsOf<order>& rows,
                          const OwnColumns& columns, int column, bool more, const OwnColumns& next, int next_column) {
    u8* at = static_cast<u8*>(base) + (rows.first * pitch + column) * Storage::bytes;
#pragma unroll
    for (int first = 0; first < own_rows; first += ahead) {
      float sums[ahead][own_columns];
#pragma unroll
      for (int i = 0; i < ahead; ++i)
#pragma unroll
        for (int c = 0; c < own_columns; ++c) sums[i][c] = __fadd_rn(v[i][c], block.v[first + i][c]);
      if (first + ahead < own_rows)
        load(on, base, pitch, rows, columns, column, first + ahead);
      else
        load(on && more, base, pitch, rows, next, next_column);
#pragma unroll
      for (int i = 0; i < ahead; ++i)
        store_8_values<Storage>(on && columns.exist && rows.has(first + i),
                                ptx::offset(at, rows.step(first + i), static_cast<u32>(pitch) * Storage::bytes),
                                sums[i]);
    }
  }
};

// Two halves that split(v, 1) deals out one by one, back into v.
template <class Storage, bool accumulate = false, RowOrder order>
EPIFUSE_DEVICE void store_rows_alternating(const Block& even, const Block& odd, void* base, i64 pitch,
                                           const OwnRowsOf<order>& rows, const OwnColumns& columns) {
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + 2 * columns.first) * Storage::bytes;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const bool row_on = columns.exist && rows.has(i);
    u8* row = ptx::offset(at, rows.step(i), static_cast<u32>(pitch) * Storage::bytes);
    const bool row_old = columns.exist && rows.exists(i);
    const bool on[2] = {row_on, row_on}, old[2] = {row_old, row_old};
    u8* const to[2] = {row, row + 8 * Storage::bytes};
    float v[2][8];
#pragma unroll
    for (int c = 0; c < 16; ++c) v[c / 8][c % 8] = (c & 1 ? odd : even).v[i][c / 2];
    if constexpr (accumulate) {
      add_eights<Storage>(on, old, to, v);
    } else {
      store_8_values<Storage>(on[0], to[0], v[0]);
      store_8_values<Storage>(on[1], to[1], v[1]);
    }
  }
}

// buffer[column, row], pitch in elements; the thread's columns lie `apart` places apart. Rows that do not exist must be
// zero in the block where the gap is written. aligned: the place starts at multiples of 4, and so does its limit, and
// rows are in consecutive order; otherwise they go one by one.
template <class Storage, bool aligned, bool accumulate = false, int apart = 1, RowOrder order, ColumnOrder column_order>
EPIFUSE_DEVICE void store_transposed(const Block& block, void* base, i64 pitch, const OwnRowsOf<order>& rows,
                                     const OwnColumnsOf<column_order>& columns, int column) {
  static_assert(!aligned || order == RowOrder::consecutive, "the thread's rows are neighbours");
  constexpr int at_once = 4;  // columns
  u8* at = static_cast<u8*>(base) + (column * pitch + rows.first) * Storage::bytes;
#pragma unroll
  for (int first = 0; first < own_columns; first += at_once) {
    u8* to[at_once];
    float v[at_once][own_rows];
#pragma unroll
    for (int c = 0; c < at_once; ++c) {
      to[c] = ptx::offset(at, columns.step(first + c) * apart, static_cast<u32>(pitch) * Storage::bytes);
      if constexpr (accumulate && aligned) {
        load_4_old_values<Storage>(columns.exist && rows.exists(0), to[c], v[c]);
#pragma unroll
        for (int i = 1; i < own_rows; ++i) v[c][i] = rows.exists(i) ? v[c][i] : 0.f;
      } else if constexpr (accumulate) {
#pragma unroll
        for (int i = 0; i < own_rows; ++i)
          v[c][i] = load_old_value<Storage>(columns.exist && rows.exists(i), to[c] + rows.step(i) * Storage::bytes);
      }
    }
#pragma unroll
    for (int c = 0; c < at_once; ++c) {
#pragma unroll
      for (int i = 0; i < own_rows; ++i) {
        const float value = block.v[i][first + c];
        v[c][i] = accumulate ? __fadd_rn(v[c][i], value) : value;
      }
      if constexpr (aligned) {
        store_4_values<Storage>(columns.exist && rows.has(0), to[c], v[c][0], v[c][1], v[c][2], v[c][3]);
      } else {
#pragma unroll
        for (int i = 0; i < own_rows; i += 2)
          store_2_single_values<Storage>(columns.exist && rows.has(i), columns.exist && rows.has(i + 1),
                                         to[c] + rows.step(i) * Storage::bytes,
                                         to[c] + rows.step(i + 1) * Storage::bytes, v[c][i], v[c][i + 1]);
      }
    }
  }
}

}  // namespace epifuse
