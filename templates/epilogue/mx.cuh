// Sinks for MX types: blocks of 32 values with one power-of-two scale, an E8M0 byte, along rows or (for a transposed
// buffer) along columns of the 32 x 32 block that a warp owns.
//
// Scale (rule "up", numerics.md §3): the smallest 2^k with amax <= max * 2^k. 448 and 57344 are both 1.75 * 2^emax, so
// amax * 4/7 has the biased exponent t = k + 127 + emax - 1, and byte = max(0, t - (emax - 1)). 4/7 is rounded so
// that 1.75 * 2^n stays below 2^n and the next number reaches it. The product grows with |x|, so that its upper half
// will do for the reduction over lanes, two in a register.
//
// A block with an infinity or a NaN ("propagate"): only their product has t = 255, for it is smaller than any finite
// amax; t wins; its byte becomes 255 and its inverse NaN, so that every code of the block is NaN. No branch.
#pragma once

#include "epilogue/place.cuh"
#include "epilogue/quad.cuh"
#include "epilogue/storage.cuh"
#include "ptx/sync.cuh"

namespace epifuse {

template <class Element>
struct MxScale;
template <>
struct MxScale<e4m3> {
  static constexpr u32 emax = 8;
};
template <>
struct MxScale<e5m2> {
  static constexpr u32 emax = 15;
};

template <class Element>
struct Mx {
  static constexpr u32 emax = MxScale<Element>::emax;
  static constexpr u32 both = 0x00010001;  // one in each half

  // In its upper half, what magnitudes are compared by.
  static EPIFUSE_DEVICE u32 magnitude(float amax) { return __float_as_uint(__fmul_rn(amax, 0x1.249248p-1f)); }
  static EPIFUSE_DEVICE u32 pair(u32 low, u32 high) { return __byte_perm(low, high, 0x7632); }

  // From a pair of magnitudes: the scale bytes, and 1/scale as a pair of bf16 (exact; NaN for a NaN block).
  static EPIFUSE_DEVICE void scales(u32 magnitudes, u32& bytes, u32& inverses) {
    constexpr u32 least = emax - 1;
    constexpr u32 nan_step = 255 - least;
    const u32 raised = ptx::max_u16x2(magnitudes >> 7 & 0xff * both, least * both);
    const u32 steps = raised - least * both;
    const u32 nan = (raised + both) >> 8 & both;
    bytes = steps + nan * (255 - nan_step);
    inverses = 0x7F00 * both - steps * 128 + nan * (0x7FFF - (0x7F00 - nan_step * 128));
  }

  static EPIFUSE_DEVICE u32 pack4(float a, float b, float c, float d) {
    return Codec<Element>::pack2(a, b) | Codec<Element>::pack2(c, d) << 16;
  }
};

EPIFUSE_DEVICE float magnitude_of_4(float a, float b, float c, float d) {
  return ptx::max_nan(ptx::max_nan(fabsf(a), fabsf(b)), ptx::max_nan(fabsf(c), fabsf(d)));
}

EPIFUSE_DEVICE u32 max_over(u32 v, int lane_mask) { return ptx::max_u16x2(v, __shfl_xor_sync(~0u, v, lane_mask)); }

// Where scale bytes go. A byte by itself costs a whole 32-byte sector of L2 traffic, so bytes that are neighbours in
// memory are gathered; the Single forms serve blocks that have none.

struct SingleRowScales {
  EPIFUSE_DEVICE void put(void* base, i64 pitch, const Lane& lane, const OwnRows& rows, bool on, int block_column, int,
                          u32 byte) {
    ptx::store_8(on && rows.has(lane.l), static_cast<u8*>(base) + (rows.first + lane.l) * pitch + block_column, byte);
  }
};

// `width` (2 or 4) blocks of a row at once: the tile's first block, the blocks of a row and the pitch are multiples of
// it.
template <int width>
struct GatheredRowScales {
  u32 word = 0;

  EPIFUSE_DEVICE void put(void* base, i64 pitch, const Lane& lane, const OwnRows& rows, bool on, int block_column,
                          int block, u32 byte) {
    word = (word >> 8) | (byte << (8 * (width - 1)));
    if (block % width != width - 1) return;
    u8* to = static_cast<u8*>(base) + (rows.first + lane.l) * pitch + (block_column - (width - 1));
    if constexpr (width == 2)
      ptx::store_16(on && rows.has(lane.l), to, word);
    else
      ptx::store_32(on && rows.has(lane.l), to, word);
  }
};

// A tile's first four blocks of a row, wherever they lie; stored behind the last of them. A quad's bytes are
// transposed, so that its lanes store neighbours. more: tiles may have further blocks, which are stored one by one.
template <bool more = false>
struct JoinedRowScales {
  u32 word = 0;  // the last byte at the upper end

  EPIFUSE_DEVICE void put(void* base, i64 pitch, const Lane& lane, const OwnRows& rows, bool on, int block_column,
                          int block, u32 byte) {
    if (!more || block < 4)
      word = word >> 8 | byte << 24;
    else
      SingleRowScales().put(base, pitch, lane, rows, on, block_column, block, byte);
  }
  // `first`: the tile's first block in a row. So many have been put, and so many exist, which are the first ones.
  EPIFUSE_DEVICE void finish(void* base, i64 pitch, const Lane& lane, const OwnRows& rows, int first, int put,
                             int exist) const {
    const u32 mine = transpose_bytes(word >> (32 - 8 * (more ? min(put, 4) : put)), lane.l);
    u8* at = static_cast<u8*>(base) + rows.first * pitch + first + lane.l;
#pragma unroll
    for (int i = 0; i < own_rows; ++i)
      ptx::store_8(lane.l < exist && rows.has(i), ptx::offset(at, i, static_cast<u32>(pitch)), mine >> (8 * i) & 0xff);
  }
};

struct SingleColumnScales {
  EPIFUSE_DEVICE void put(void* base, i64 pitch, const Lane&, const OwnRows& rows, bool on, int column, int, u32 byte) {
    ptx::store_8(on, static_cast<u8*>(base) + column * pitch + (rows.first >> 5), byte);
  }
};

// The four warps' bytes of a column through shared memory (4 bytes for each of the tile's columns), stored at once by
// flush(). Between a tile's bytes and the next one's, and between the last put() and flush(), the warpgroup meets. The
// place starts at multiples of 128 rows, and the pitch is a multiple of 4.
struct GatheredColumnScales {
  u32 scratch;

  EPIFUSE_DEVICE void put(void*, i64, const Lane& lane, const OwnRows&, bool, int, int column_in_tile, u32 byte) const {
    ptx::store_shared_8(scratch + 4 * column_in_tile + lane.warp, byte);
  }
  // By the thread of column `index` of the tile; `column` is its place in the buffer.
  EPIFUSE_DEVICE void flush(void* base, i64 pitch, const Rows& rows, bool on, int column, int index) const {
    ptx::store_32(on, static_cast<u8*>(base) + column * pitch + (rows.first >> 5),
                  ptx::load_shared_32(scratch + 4 * index));
  }
};

// codes[row, column] and scales[row, column / 32]; pitches in elements. `block`: index of the block in the tile's part.
template <class Element, class Scales, ColumnOrder order>
EPIFUSE_DEVICE void store_rows_mx(const Block& block_values, void* codes, i64 pitch, void* scale_bytes, i64 scale_pitch,
                                  Scales& gathered, const Lane& lane, const OwnRows& rows,
                                  const OwnColumnsOf<order>& columns, int column, int block) {
  using M = Mx<Element>;
  u32 t[own_rows];
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float(&v)[own_columns] = block_values.v[i];
    t[i] = M::magnitude(ptx::max_nan(magnitude_of_4(v[0], v[1], v[2], v[3]), magnitude_of_4(v[4], v[5], v[6], v[7])));
  }
  u32 low = M::pair(t[0], t[1]), high = M::pair(t[2], t[3]);  // four lanes share a row
  low = max_over(low, 1), high = max_over(high, 1);
  low = max_over(low, 2), high = max_over(high, 2);
  u32 bytes_low, bytes_high, inverse_low, inverse_high;
  M::scales(low, bytes_low, inverse_low);
  M::scales(high, bytes_high, inverse_high);

  // Lane l stores the byte of row l.
  const u32 mine = (lane.l & 2 ? bytes_high : bytes_low) >> (lane.l & 1 ? 16 : 0) & 0xff;
  gathered.put(scale_bytes, scale_pitch, lane, rows, columns.block_exists, column / block_columns, block, mine);

  const float inverse[own_rows] = {ptx::bf16_low(inverse_low), ptx::bf16_high(inverse_low), ptx::bf16_low(inverse_high),
                                   ptx::bf16_high(inverse_high)};
  u8* at = static_cast<u8*>(codes) + rows.first * pitch + columns.eight(column);
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float(&v)[own_columns] = block_values.v[i];
    const float s = inverse[i];
    u32 low = M::pack4(v[0] * s, v[1] * s, v[2] * s, v[3] * s), high = M::pack4(v[4] * s, v[5] * s, v[6] * s, v[7] * s);
    if constexpr (order == ColumnOrder::natural) straighten_codes(low, high, lane.l);
    ptx::store_64(columns.exist && rows.has(i), ptx::offset(at, i, static_cast<u32>(pitch)), low, high);
  }
}

// Both halves of columns that alternate one by one (piece 1) or eight by eight, back in one row: a thread has 16
// neighbours of it, and two threads a block of 32.
template <class Element, int piece>
EPIFUSE_DEVICE void store_rows_mx_alternating(const Block& even, const Block& odd, void* codes, i64 pitch,
                                              void* scale_bytes, i64 scale_pitch, const Lane& lane, const OwnRows& rows,
                                              const OwnColumns& columns) {
  using M = Mx<Element>;
  u32 t[own_rows];
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float(&a)[own_columns] = even.v[i];
    const float(&b)[own_columns] = odd.v[i];
    const float of_a = ptx::max_nan(magnitude_of_4(a[0], a[1], a[2], a[3]), magnitude_of_4(a[4], a[5], a[6], a[7]));
    const float of_b = ptx::max_nan(magnitude_of_4(b[0], b[1], b[2], b[3]), magnitude_of_4(b[4], b[5], b[6], b[7]));
    t[i] = M::magnitude(ptx::max_nan(of_a, of_b));
  }
  u32 bytes[2], inverses[2];
#pragma unroll
  for (int pair = 0; pair < 2; ++pair)
    M::scales(max_over(M::pair(t[2 * pair], t[2 * pair + 1]), 1), bytes[pair], inverses[pair]);

  // Of the two threads, each stores the bytes of two rows.
  const int upper = lane.l & 1;
  const u32 mine = upper ? bytes[1] : bytes[0];
  u8* scale = static_cast<u8*>(scale_bytes) + (rows.first + 2 * upper) * scale_pitch + (columns.first >> 4);
  ptx::store_8(columns.exist && rows.has(2 * upper), scale, mine & 0xff);
  ptx::store_8(columns.exist && rows.has(2 * upper + 1), scale + scale_pitch, mine >> 16 & 0xff);

  u8* at = static_cast<u8*>(codes) + rows.first * pitch + 2 * columns.first;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float s = i & 1 ? ptx::bf16_high(inverses[i >> 1]) : ptx::bf16_low(inverses[i >> 1]);
    u32 w[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int place = 4 * k + j;  // of the thread's 16
        const bool second = piece == 1 ? place & 1 : place >= 8;
        v[j] = (second ? odd : even).v[i][piece == 1 ? place >> 1 : place & 7] * s;
      }
      w[k] = M::pack4(v[0], v[1], v[2], v[3]);
    }
    ptx::store_128(columns.exist && rows.has(i), ptx::offset(at, i, static_cast<u32>(pitch)), w[0], w[1], w[2], w[3]);
  }
}

// The codes of the thread's four rows in a column; one by one where the block may be short or its start is not aligned.
template <bool whole>
EPIFUSE_DEVICE void store_4_codes(bool on, const OwnRows& rows, u8* to, u32 codes) {
  if constexpr (whole) {
    ptx::store_32(on && rows.has(0), to, codes);
  } else {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) ptx::store_8(on && rows.has(i), to + i, codes >> (8 * i) & 0xff);
  }
}

// Zero in the codes of a group's gap in a block: a NaN scale has made them NaN. By the threads that have stored them.
template <bool whole, int apart = 1>
EPIFUSE_DEVICE void clear_codes_of_gap(void* codes, i64 pitch, const OwnRows& rows, const OwnColumns& columns,
                                       int column) {
  u8* at = static_cast<u8*>(codes) + column * pitch + rows.first;
#pragma unroll 1
  for (int c = 0; c < own_columns; ++c) {
    u8* to = ptx::offset(at, c * apart, static_cast<u32>(pitch));
    if (whole && !rows.exists(0)) {
      ptx::store_32(columns.exist && rows.has(0), to, 0);
    } else {
#pragma unroll
      for (int i = 0; i < own_rows; ++i) ptx::store_8(columns.exist && rows.has(i) && !rows.exists(i), to + i, 0);
    }
  }
}

// codes[column, row] and scales[column, row / 32]; pitches in elements. Rows that do not exist are zero in the block; a
// NaN scale makes codes of theirs NaN all the same (clear_codes_of_gap).
// The place starts at multiples of 32 rows. whole: so does its limit; otherwise the last block may be short. The
// thread's columns lie `apart` places apart.
template <class Element, bool whole, int apart = 1, class Scales>
EPIFUSE_DEVICE void store_transposed_mx(const Block& block_values, void* codes, i64 pitch, void* scale_bytes,
                                        i64 scale_pitch, Scales& gathered, const Lane& lane, const OwnRows& rows,
                                        const OwnColumns& columns, int column, int block) {
  using M = Mx<Element>;
  const auto& v = block_values.v;
  u32 t[own_columns / 2];  // magnitudes of column pairs, over the thread's rows
#pragma unroll
  for (int j = 0; j < own_columns / 2; ++j) {
    const int c = 2 * j;
    t[j] = M::pair(M::magnitude(magnitude_of_4(v[0][c], v[1][c], v[2][c], v[3][c])),
                   M::magnitude(magnitude_of_4(v[0][c + 1], v[1][c + 1], v[2][c + 1], v[3][c + 1])));
  }
  // Eight lanes (q) share a column. A reduce-scatter leaves lane q with pair j = 2 * (q & 1) + (q >> 1 & 1).
  const bool second = lane.q & 1, odd_pair = lane.q & 2;
  u32 keep0 = second ? t[2] : t[0], keep1 = second ? t[3] : t[1];
  const u32 give0 = second ? t[0] : t[2], give1 = second ? t[1] : t[3];
  keep0 = ptx::max_u16x2(keep0, __shfl_xor_sync(~0u, give0, 4));
  keep1 = ptx::max_u16x2(keep1, __shfl_xor_sync(~0u, give1, 4));
  u32 pair = odd_pair ? keep1 : keep0;
  pair = ptx::max_u16x2(pair, __shfl_xor_sync(~0u, odd_pair ? keep0 : keep1, 8));
  pair = max_over(pair, 16);
  u32 bytes, inverses;
  M::scales(pair, bytes, inverses);

  // The bytes of a column are spread over all lanes of the block, so the block decides, not the lane's own rows.
  const bool block_on = columns.exist && rows.count + own_rows * lane.q > 0;
  // Lanes q and q + 4 hold the same pair: each stores one byte of it.
  const int own = 4 * (lane.q & 1) + (lane.q & 2) + (lane.q >> 2);
  gathered.put(scale_bytes, scale_pitch, lane, rows, block_on, column + own * apart,
               block * block_columns + lane.first_column() + own, (lane.q & 4 ? bytes >> 16 : bytes) & 0xff);

  const int holders = (lane.q & 4) * 4 + lane.l;
  u8* at = static_cast<u8*>(codes) + column * pitch + rows.first;
#pragma unroll
  for (int j = 0; j < own_columns / 2; ++j) {
    const u32 both = __shfl_sync(~0u, inverses, holders | (j >> 1) << 2 | (j & 1) << 3);
    const float a = ptx::bf16_low(both), b = ptx::bf16_high(both);
    const int c = 2 * j;
    store_4_codes<whole>(columns.exist, rows, ptx::offset(at, c * apart, static_cast<u32>(pitch)),
                         M::pack4(v[0][c] * a, v[1][c] * a, v[2][c] * a, v[3][c] * a));
    store_4_codes<whole>(columns.exist, rows, ptx::offset(at, (c + 1) * apart, static_cast<u32>(pitch)),
                         M::pack4(v[0][c + 1] * b, v[1][c + 1] * b, v[2][c + 1] * b, v[3][c + 1] * b));
  }
}

}  // namespace epifuse
