// Codes of a scaled format, once the scales of their blocks are known (epilogue/block_scales.cuh): into a buffer in row
// order, or transposed.
#pragma once

#include "epilogue/block_scales.cuh"
#include "formats/philox.cuh"

namespace epifuse {

// Rounding to nearest even.
struct Nearest {
  static constexpr bool random = false;
};

// Stochastic rounding: the bytes of a thread's elements, each a function of the element's place as stored
// (formats/philox.cuh), for patches of 4 x 4. In consecutive order the thread's rows are one patch's, from a multiple
// of 4 in the group on; in natural order each row is in a patch of its own. Columns begin at a multiple of 8 and lie
// `step` apart, from `phase` on.
template <RowOrder order, bool transposed, int width, int step = 1, int phase = 0>
struct Stochastic {
  static constexpr bool random = true;
  static constexpr int across = width * step / 4, along = order == RowOrder::consecutive ? 1 : own_rows;
  formats::RandomBytes bytes[along][across];
  int first_row;

  // row: of the tile, in the group. column: as stored, without the phase.
  EPIFUSE_DEVICE Stochastic(const formats::RandomSource& source, const LaneOf<order>& lane, int row, int column,
                            int matrix)
      : first_row(row + lane.first_row()) {
#pragma unroll
    for (int i = 0; i < along; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j)
        bytes[i][j] = transposed ? source.bytes(column + 4 * j, first_row + lane.step(i), matrix)
                                 : source.bytes(first_row + lane.step(i), column + 4 * j, matrix);
  }
  EPIFUSE_DEVICE u32 at(int i, int c) const {
    const int column = phase + step * c, row = order == RowOrder::consecutive ? i : first_row;  // 8 and 64 fall away
    const formats::RandomBytes& patch = bytes[i % along][column / 4];
    return transposed ? patch.at(column, row) : patch.at(row, column);
  }
};

template <class Format>
constexpr int code_bits = formats::ElementLimits<typename Format::Element>::bits;

// The code words of four elements, of a row from column c on or of the thread's rows in a column.
template <class Format, bool of_column, class Values, class Scales, class Rounding>
EPIFUSE_DEVICE u32 codes_of_4(const Values& values, const Scales& scales, const Rounding& rounding, int i, int c) {
  using Element = typename Format::Element;
  float v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int row = of_column ? j : i, column = of_column ? c : c + j;
    v[j] = Format::scaled(values.at(row, column), scales.of(row, column));
  }
  if constexpr (Rounding::random) {
    u32 word = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      word |= formats::narrow_stochastic<Element>(v[j], of_column ? rounding.at(j, c) : rounding.at(i, c + j))
              << (code_bits<Format> * j);
    return word;
  } else {
    return formats::narrow_4<Element>(v[0], v[1], v[2], v[3]);
  }
}

// Rows of a block that do not exist are a group's gap, whose codes are zero even where the scale is no number.

// codes[row, column]; the pitch in elements, a multiple of 8.
template <class Format, class Values, class Scales, class Rounding, RowOrder order>
EPIFUSE_DEVICE void store_codes(const Values& values, const Scales& scales, const Rounding& rounding, void* base,
                                i64 pitch, const OwnRowsOf<order>& rows, const OwnColumns& columns, i64 column) {
  constexpr int bits = code_bits<Format>, words = Values::width * bits / 32;
  u8* at = static_cast<u8*>(base) + (rows.first * pitch + column) * bits / 8;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    u32 w[words];
#pragma unroll
    for (int j = 0; j < words; ++j) {
      constexpr int in_word = 32 / bits;  // 4 or 8 codes
      w[j] = codes_of_4<Format, false>(values, scales, rounding, i, in_word * j);
      if constexpr (bits == 4) w[j] |= codes_of_4<Format, false>(values, scales, rounding, i, in_word * j + 4) << 16;
      if constexpr (Scales::several_rows) w[j] = rows.exists(i) ? w[j] : 0;
    }
    const bool on = columns.exist && rows.has(i);
    u8* to = ptx::offset(at, rows.step(i), static_cast<u32>(pitch) * bits / 8);
    if constexpr (words == 4)
      ptx::store_128(on, to, w[0], w[1], w[2], w[3]);
    else if constexpr (words == 2)
      ptx::store_64(on, to, w[0], w[1]);
    else
      ptx::store_32(on, to, w[0]);
  }
}

// codes[column, row]; the pitch in elements. whole: rows begin at multiples of 4 in the buffer, and so does what may be
// written; otherwise they go one by one, codes of 4 bits in pairs, whose groups begin at even rows. The thread's
// columns lie `step` apart.
template <class Format, bool whole, int step, class Values, class Scales, class Rounding, RowOrder order>
EPIFUSE_DEVICE void store_codes_transposed(const Values& values, const Scales& scales, const Rounding& rounding,
                                           void* base, i64 pitch, const OwnRowsOf<order>& rows,
                                           const OwnColumns& columns, i64 column) {
  constexpr int bits = code_bits<Format>;
  static_assert(order == RowOrder::consecutive || !whole, "the thread's rows are no neighbours");
  u8* at = static_cast<u8*>(base) + (column * pitch + rows.first) * bits / 8;
  u32 kept = 0;
#pragma unroll
  for (int i = 0; i < own_rows; ++i)
    if (!Scales::several_rows || rows.exists(i)) kept |= ((1u << bits) - 1) << (bits * i);
#pragma unroll
  for (int c = 0; c < Values::width; ++c) {
    const u32 codes = codes_of_4<Format, true>(values, scales, rounding, 0, c) & kept;
    u8* to = ptx::offset(at, step * c, static_cast<u32>(pitch) * bits / 8);
    if constexpr (whole) {
      if constexpr (bits == 8)
        ptx::store_32(columns.exist && rows.has(0), to, codes);
      else
        ptx::store_16(columns.exist && rows.has(0), to, codes);
    } else if constexpr (order == RowOrder::natural && bits == 4) {
      // The other code of a byte is the next lane's along rows: the lane of the even row stores both.
      const u32 next = __shfl_xor_sync(~0u, codes, 4);
      const bool even = !(rows.first & 1);
#pragma unroll
      for (int i = 0; i < own_rows; ++i)
        ptx::store_8(even && columns.exist && rows.has(i), to + rows.step(i) / 2,
                     (codes >> (4 * i) & 0xf) | (next >> (4 * i) & 0xf) << 4);
    } else {
      constexpr int each = bits == 8 ? 1 : 2;  // rows of a byte
#pragma unroll
      for (int i = 0; i < own_rows; i += each)
        ptx::store_8(columns.exist && rows.has(i), to + rows.step(i) / each, codes >> (bits * i) & 0xff);
    }
  }
}

}  // namespace epifuse
