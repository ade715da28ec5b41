// Scales of the blocks of a scaled format, from the values that a warp or the whole tile holds: the first half of a
// quantising sink (epilogue/quantise.cuh has the codes, epilogue/scale_layout.cuh brings the scales to memory).
//
// A block spans block_rows x block_columns elements: 1 x 16, 1 x 32 or 1 x 128 along columns; 16 x 1, 32 x 1 or 128 x 1
// along rows; or it is square. A thread holds own_rows rows of `width` neighbouring columns: 8, or 16 where two halves
// that alternate in memory are stored together. Magnitudes are compared as bits, so that NaN is the largest.
//
// Up to 32 rows and 32 columns lie in one warp. 128 rows meet in shared memory, once for every 32 columns. 128 columns
// are all that the tile has: they are measured in a pass of its own over the tile, before codes are stored
// (WideScales).
#pragma once

#include "epilogue/place.cuh"
#include "formats/policy.cuh"
#include "ptx/sync.cuh"

namespace epifuse {

// A block's values as a sink sees them; joined, those of two halves whose columns alternate by `piece` (1 or 8).
struct OwnValues {
  static constexpr int width = own_columns;
  const Block& block;
  EPIFUSE_DEVICE float at(int i, int c) const { return block.v[i][c]; }
};
template <int piece>
struct JoinedValues {
  static constexpr int width = 2 * own_columns;
  const Block &first, &second;
  EPIFUSE_DEVICE float at(int i, int c) const {
    const bool of_second = piece == 1 ? c & 1 : c >= own_columns;
    return (of_second ? second : first).v[i][piece == 1 ? c >> 1 : c % own_columns];
  }
};

// Codes of the scales of a tile of `columns` columns, in shared memory.
template <class ScaleCode, int block_rows_, int block_columns_, int columns_>
struct ScaleTile {
  static constexpr int block_rows = block_rows_, block_columns = block_columns_, columns = columns_;
  static constexpr int rows_of_blocks = tile_rows / block_rows;
  static constexpr int columns_of_blocks = (columns + block_columns - 1) / block_columns;
  u32 shared;

  EPIFUSE_DEVICE u32 address(int r, int c) const { return shared + (r * columns_of_blocks + c) * sizeof(ScaleCode); }
  EPIFUSE_DEVICE void put(int r, int c, u32 code) const {
    if constexpr (sizeof(ScaleCode) == 1)
      ptx::store_shared_8(address(r, c), code);
    else
      ptx::store_shared_32(address(r, c), code);
  }
  EPIFUSE_DEVICE u32 get(int r, int c) const {
    if constexpr (sizeof(ScaleCode) == 1)
      return ptx::load_shared_8(address(r, c));
    else
      return ptx::load_shared_32(address(r, c));
  }
};

// The largest over the lanes whose index differs in these bits: 1 and 2 are neighbours along columns, 4, 8 and 16 along
// rows.
template <int lane_bits>
EPIFUSE_DEVICE u32 largest_of_lanes(u32 v) {
#pragma unroll
  for (int bit = 1; bit < 32; bit *= 2)
    if (lane_bits & bit) v = max(v, __shfl_xor_sync(~0u, v, bit));
  return v;
}

template <class Format, class Values>
EPIFUSE_DEVICE u32 largest_of_row(const Values& values, int i) {
  u32 largest = 0;
#pragma unroll
  for (int c = 0; c < Values::width; ++c) largest = max(largest, Format::magnitude(values.at(i, c)));
  return largest;
}
template <class Format, class Values>
EPIFUSE_DEVICE u32 largest_of_column(const Values& values, int c) {
  u32 largest = 0;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) largest = max(largest, Format::magnitude(values.at(i, c)));
  return largest;
}

// The scales of a thread's elements, of(i, c); their codes go into the tile. several_rows: whether a block has rows
// that exist and others that do not. `block`: which of the tile's blocks of 4 * width columns it is. `meeting`: shared
// memory for each of them where warps share a block, 512 bytes, or 1024 in natural order.
template <class Format, int block_rows, int block_columns, int width>
struct WarpScales {  // square
  static_assert(block_rows == block_columns && block_rows <= 32, "one warp has all of the block");
  static constexpr bool several_rows = true;
  static constexpr int lanes_of_row = block_columns / width;
  formats::Scale scale;

  template <class Values, class Tile>
  EPIFUSE_DEVICE WarpScales(const Values& values, const typename Format::Setup& setup, const Lane& lane,
                            const Tile& tile, int block, u32) {
    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < own_rows; ++i) largest = max(largest, largest_of_row<Format>(values, i));
    constexpr int row_bits = block_rows == 16 ? 12 : 28;
    scale = Format::scale(largest_of_lanes<row_bits + lanes_of_row - 1>(largest), setup);
    if (((4 * lane.q + lane.l) & (row_bits + lanes_of_row - 1)) == 0)
      tile.put((32 * lane.warp + 4 * lane.q) / block_rows, block * (4 / lanes_of_row) + lane.l / lanes_of_row,
               scale.code);
  }
  EPIFUSE_DEVICE const formats::Scale& of(int, int) const { return scale; }
};

// Along columns.
template <class Format, int block_columns, int width>
struct WarpScales<Format, 1, block_columns, width> {
  static constexpr bool several_rows = false;
  static constexpr int lanes = block_columns / width;  // that share a block
  formats::Scale scales[own_rows];

  template <class Values, RowOrder order, class Tile>
  EPIFUSE_DEVICE WarpScales(const Values& values, const typename Format::Setup& setup, const LaneOf<order>& lane,
                            const Tile& tile, int block, u32) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) {
      scales[i] = Format::scale(largest_of_lanes<lanes - 1>(largest_of_row<Format>(values, i)), setup);
      if ((lane.l & (lanes - 1)) == 0)
        tile.put(lane.first_row() + lane.step(i), block * (4 / lanes) + lane.l / lanes, scales[i].code);
    }
  }
  EPIFUSE_DEVICE const formats::Scale& of(int i, int) const { return scales[i]; }
};

// Along rows. Lanes share columns: a reduce-scatter leaves each with those that it makes the scales of.
template <class Format, int block_rows, int width>
struct WarpScales<Format, block_rows, 1, width> {
  static_assert(width == own_columns, "halves that alternate are stored apart along rows");
  static constexpr bool several_rows = true;
  static constexpr int lanes = block_rows == 16 ? 4 : 8, own = own_columns / lanes;
  formats::Scale scales[own_columns];

  template <class Values, class Tile>
  EPIFUSE_DEVICE WarpScales(const Values& values, const typename Format::Setup& setup, const Lane& lane,
                            const Tile& tile, int block, u32 meeting) {
    u32 t[own_columns];
#pragma unroll
    for (int c = 0; c < own_columns; ++c) t[c] = largest_of_column<Format>(values, c);
#pragma unroll
    for (int half = own_columns / 2, bit = 4; half >= own; half /= 2, bit *= 2) {
      const bool upper = 4 * lane.q & bit;
#pragma unroll
      for (int c = 0; c < half; ++c) {
        const u32 keep = upper ? t[half + c] : t[c], give = upper ? t[c] : t[half + c];
        t[c] = max(keep, __shfl_xor_sync(~0u, give, bit));
      }
    }
    // The first of the lane's columns.
    const int first = lane.first_column() + 4 * (lane.q & 1) + (lane.q & 2) + (lanes == 8 ? lane.q >> 2 : 0);
    if constexpr (block_rows == tile_rows) t[0] = largest_of_warps(t[0], lane, meeting + 512 * block + 4 * first);
    formats::Scale mine[own];
#pragma unroll
    for (int j = 0; j < own; ++j) {
      mine[j] = Format::scale(t[j], setup);
      if (block_rows != tile_rows || lane.warp == 0)
        tile.put((32 * lane.warp + 4 * lane.q) / block_rows, block * block_columns_of_warp + first + j, mine[j].code);
    }
#pragma unroll
    for (int c = 0; c < own_columns; ++c) {
      const int q = (c >> 2 & 1) | (c & 2) | (lanes == 8 ? (c & 1) << 2 : lane.q & 4);
      scales[c].factor = __shfl_sync(~0u, mine[lanes == 8 ? 0 : c & 1].factor, 4 * q + lane.l);
    }
  }
  EPIFUSE_DEVICE const formats::Scale& of(int, int c) const { return scales[c]; }

 private:
  static constexpr int block_columns_of_warp = epifuse::block_columns;

  static EPIFUSE_DEVICE u32 largest_of_warps(u32 largest, const Lane& lane, u32 column) {
    ptx::store_shared_32(column + 128 * lane.warp, largest);
    warpgroup_sync();
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) largest = max(largest, ptx::load_shared_32(column + 128 * warp));
    return largest;
  }
};

// In natural order a thread has two rows of a warp's 16 in each half of the tile (i / 2), so blocks of 16 rows lie in a
// warp, those of 32 in two neighbouring warps, and those of 128 in both halves of four. Along rows, or square.
template <class Format, int block_rows, int block_columns, int width>
struct NaturalScales {
  static constexpr bool several_rows = true;
  static constexpr int lanes_of_row = block_columns == 1 ? 1 : block_columns / width;
  static constexpr int kept = block_columns == 1 ? own_columns : 1;  // maxima of a half
  static constexpr int warps = block_rows == 16 ? 1 : block_rows == 32 ? 2 : 4;
  static_assert(block_columns == 1 ? width == own_columns : block_rows == block_columns, "along rows, or square");
  formats::Scale scales[2][kept];

  template <class Values, class Tile>
  EPIFUSE_DEVICE NaturalScales(const Values& values, const typename Format::Setup& setup,
                               const LaneOf<RowOrder::natural>& lane, const Tile& tile, int block, u32 meeting) {
    u32 largest[2][kept] = {};
#pragma unroll
    for (int i = 0; i < own_rows; ++i)
#pragma unroll
      for (int c = 0; c < width; ++c)
        largest[i / 2][c % kept] = max(largest[i / 2][c % kept], Format::magnitude(values.at(i, c)));
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kept; ++c) largest[half][c] = largest_of_lanes<28 + lanes_of_row - 1>(largest[half][c]);
    if constexpr (warps != 1) join_warps(largest, lane, meeting + 1024 * block);
    const bool of_first_warp = (lane.warp & (warps - 1)) == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kept; ++c) {
        scales[half][c] = Format::scale(largest[half][c], setup);
        const bool writes = of_first_warp && (block_rows != tile_rows || half == 0) && lane.q == 0;
        const int column = block_columns == 1 ? 32 * block + lane.first_column() + c
                                              : block * (4 / lanes_of_row) + lane.l / lanes_of_row;
        if (writes && (lane.l & (lanes_of_row - 1)) == 0)
          tile.put((64 * half + 16 * lane.warp) / block_rows, column, scales[half][c].code);
      }
  }
  EPIFUSE_DEVICE const formats::Scale& of(int i, int c) const { return scales[i / 2][c % kept]; }

 private:
  // 4 bytes for each half, warp and column (or lane of a quad).
  static EPIFUSE_DEVICE void join_warps(u32 (&largest)[2][kept], const LaneOf<RowOrder::natural>& lane, u32 meeting) {
    const auto word = [&](int half, int warp, int c) {
      return meeting + 4 * (128 * half + 32 * warp + kept * lane.l + c);
    };
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kept; ++c)
        if (lane.q == 0) ptx::store_shared_32(word(half, lane.warp, c), largest[half][c]);
    warpgroup_sync();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kept; ++c)
#pragma unroll
        for (int other = 1; other < warps; ++other)
          largest[half][c] = max(largest[half][c], ptx::load_shared_32(word(half, lane.warp ^ other, c)));
    if constexpr (block_rows == tile_rows)
#pragma unroll
      for (int c = 0; c < kept; ++c) largest[0][c] = largest[1][c] = max(largest[0][c], largest[1][c]);
  }
};

// Scales of a wide block, read back for a block of 32 of its columns.
template <int kept>
struct FoundScales {
  static constexpr bool several_rows = kept == 1;
  formats::Scale scale[kept];
  EPIFUSE_DEVICE const formats::Scale& of(int i, int) const { return scale[i % kept]; }
};

// Blocks of 128 columns, the whole tile's: add() every element, then scales(); found() for each block of 32 columns,
// through shared memory, since the accumulators leave no room for them. `exchanged`: each of two cooperative warpgroups
// has half of the columns; the other's shared memory lies `other` bytes away. meeting: 512 bytes.
template <class Format, int block_rows, bool exchanged, RowOrder order>
struct WideScales {
  static_assert(block_rows == 1 || block_rows == tile_rows, "along columns, or square");
  static constexpr int kept = block_rows == 1 ? own_rows : 1;
  u32 meeting;
  u32 largest[kept] = {};

  EPIFUSE_DEVICE void add(int i, float value) { largest[i % kept] = max(largest[i % kept], Format::magnitude(value)); }

  template <class Tile>
  EPIFUSE_DEVICE void scales(const typename Format::Setup& setup, const LaneOf<order>& lane, const Tile& tile,
                             int other) {
    const bool first_of_row = lane.l == 0, first_of_warp = first_of_row && lane.q == 0;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      largest[i] = largest_of_lanes < block_rows == 1 ? 3 : 31 > (largest[i]);
      if (block_rows == 1 ? first_of_row : first_of_warp) ptx::store_shared_32(word(lane, i), largest[i]);
    }
    if constexpr (exchanged)
      both_warpgroups_sync();
    else if constexpr (block_rows != 1)
      warpgroup_sync();
    if constexpr (block_rows == 1) {
#pragma unroll
      for (int i = 0; i < own_rows; ++i)
        if (exchanged) largest[i] = max(largest[i], ptx::load_shared_32(word(lane, i) + other));
    } else {
#pragma unroll
      for (int warp = 0; warp < 4; ++warp) {
        largest[0] = max(largest[0], ptx::load_shared_32(meeting + 4 * warp));
        if (exchanged) largest[0] = max(largest[0], ptx::load_shared_32(meeting + other + 4 * warp));
      }
    }
    // What was read is overwritten now, and by the next tile.
    if constexpr (exchanged)
      both_warpgroups_sync();
    else if constexpr (block_rows != 1)
      warpgroup_sync();
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const formats::Scale scale = Format::scale(largest[i], setup);
      if (block_rows == 1 ? first_of_row : first_of_warp)
        ptx::store_shared_32(word(lane, i), __float_as_uint(scale.factor));
      if (block_rows == 1 ? first_of_row : first_of_warp && lane.warp == 0)
        tile.put(block_rows == 1 ? lane.first_row() + lane.step(i) : 0, 0, scale.code);
    }
    __syncwarp();
  }

  EPIFUSE_DEVICE FoundScales<kept> found(const LaneOf<order>& lane) const {
    FoundScales<kept> scales;
#pragma unroll
    for (int i = 0; i < kept; ++i) scales.scale[i].factor = __uint_as_float(ptx::load_shared_32(word(lane, i)));
    return scales;
  }

 private:
  // Of a row, or of a warp.
  EPIFUSE_DEVICE u32 word(const LaneOf<order>& lane, int i) const {
    return meeting + 4 * (block_rows == 1 ? lane.first_row() + lane.step(i) : lane.warp);
  }
};

}  // namespace epifuse
