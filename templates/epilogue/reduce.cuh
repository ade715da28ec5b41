// Sinks that reduce: a tile's partials of `sum` and `amax`, into the workspace. What a partial covers depends on
// nothing but its row and column, so that results do not depend on the schedule; kernels/finish.cuh joins the partials.
//
// A sum adds in a fixed order. Where its values are products that nothing else wants, each addition is fused with its
// multiplication, under every schedule; else never. amax joins magnitudes; NaN wins.
//
// Rows that do not exist must be zero in a block, except in partials of rows, which are not stored for them. Columns
// that do not exist are selected away here, once for each row or thread: `ragged` says that there may be any.
#pragma once

#include "epilogue/place.cuh"
#include "epilogue/storage.cuh"
#include "ptx/sync.cuh"

namespace epifuse {

enum class Reduction { sum, amax };

template <Reduction reduction>
struct Reduce {
  static constexpr bool sums = reduction == Reduction::sum;
  // What one value counts, and two results together. The result of no values is 0.
  static EPIFUSE_DEVICE float of(float v) { return sums ? v : fabsf(v); }
  static EPIFUSE_DEVICE float join(float a, float b) { return sums ? __fadd_rn(a, b) : ptx::max_nan(a, b); }
  static EPIFUSE_DEVICE float of_2(float a, float b) { return join(of(a), of(b)); }
  static EPIFUSE_DEVICE float of_4(float a, float b, float c, float d) { return join(of_2(a, b), of_2(c, d)); }
};

// The thread's columns of each of its rows.
template <Reduction reduction, bool ragged, ColumnOrder order>
EPIFUSE_DEVICE void reduce_own_columns(float (&result)[own_rows], const Block& block,
                                       const OwnColumnsOf<order>& columns) {
  using R = Reduce<reduction>;
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const float(&v)[own_columns] = block.v[i];
    result[i] = R::join(R::of_4(v[0], v[1], v[2], v[3]), R::of_4(v[4], v[5], v[6], v[7]));
    if (ragged) result[i] = columns.exist ? result[i] : 0.f;
  }
}

// Of products: the thread's columns of each of its rows, from the first on.
struct SumsOfProducts {
  float own[own_rows];

  EPIFUSE_DEVICE void add(int i, int c, float first, float second) {
    own[i] = c == 0 ? __fmul_rn(first, second) : __fmaf_rn(first, second, own[i]);
  }
};

// partials[block of 32 columns][row]; pitch in elements. `first` and the second half, if there is one, are joined.
template <Reduction reduction, bool ragged>
struct RowPartials {
  using R = Reduce<reduction>;
  float own[own_rows];

  template <ColumnOrder order>
  EPIFUSE_DEVICE RowPartials(const Block& block, const OwnColumnsOf<order>& columns) {
    reduce_own_columns<reduction, ragged>(own, block, columns);
  }
  template <ColumnOrder order>
  EPIFUSE_DEVICE RowPartials(const SumsOfProducts& sums, const OwnColumnsOf<order>& columns) {
    static_assert(R::sums);
#pragma unroll
    for (int i = 0; i < own_rows; ++i) own[i] = ragged && !columns.exist ? 0.f : sums.own[i];
  }
  template <ColumnOrder order>
  EPIFUSE_DEVICE void join(const Block& block, const OwnColumnsOf<order>& columns) {
    float more[own_rows];
    reduce_own_columns<reduction, ragged>(more, block, columns);
#pragma unroll
    for (int i = 0; i < own_rows; ++i) own[i] = R::join(own[i], more[i]);
  }

  // Four lanes share a row; a reduce-scatter leaves lane l with row step(l). `rows`: of place 0.
  template <RowOrder order, ColumnOrder column_order>
  EPIFUSE_DEVICE void store(void* partials, i64 pitch, const LaneOf<order>& lane, const OwnRowsOf<order>& rows,
                            const OwnColumnsOf<column_order>& columns, int block_column) const {
    const bool odd = lane.l & 1, high = lane.l & 2;
    const float low_pair = R::join(odd ? own[1] : own[0], __shfl_xor_sync(~0u, odd ? own[0] : own[1], 1));
    const float high_pair = R::join(odd ? own[3] : own[2], __shfl_xor_sync(~0u, odd ? own[2] : own[3], 1));
    const float row = R::join(high ? high_pair : low_pair, __shfl_xor_sync(~0u, high ? low_pair : high_pair, 2));
    u8* to = static_cast<u8*>(partials) + (block_column * pitch + rows.first + rows.step(lane.l)) * 4;
    ptx::store_32(columns.block_exists && rows.has(lane.l), to, __float_as_uint(row));
  }
};

// partials[row tile][column]: the thread's rows, those of its warp, and through shared memory (4 bytes for each warp
// and column of the tile's part, at `scratch`) those of the four warps. Barriers as for GatheredColumnScales
// (epilogue/mx.cuh).
template <Reduction reduction, int tile_columns>
struct ColumnPartials {
  using R = Reduce<reduction>;
  u32 scratch;

  // Eight lanes (q) share a column; a reduce-scatter leaves lane q with column `own`. `block`: index in the tile's
  // part.
  template <RowOrder order, ColumnOrder column_order>
  EPIFUSE_DEVICE void put(const Block& values, const LaneOf<order>& lane, const OwnColumnsOf<column_order>&,
                          int block) const {
    float t[own_columns];
#pragma unroll
    for (int c = 0; c < own_columns; ++c)
      t[c] = R::of_4(values.v[0][c], values.v[1][c], values.v[2][c], values.v[3][c]);
#pragma unroll
    for (int half = own_columns / 2, mask = 4; half > 0; half /= 2, mask *= 2) {
      const bool upper = lane.q * 4 & mask;
#pragma unroll
      for (int c = 0; c < half; ++c) {
        const float keep = upper ? t[half + c] : t[c], give = upper ? t[c] : t[half + c];
        t[c] = R::join(keep, __shfl_xor_sync(~0u, give, mask));
      }
    }
    const int own = 4 * (lane.q & 1) + (lane.q & 2) + (lane.q >> 2);
    const int column =
        block * block_columns + lane.template first_column<column_order>() + column_step<column_order>(own);
    ptx::store_shared_32(scratch + 4 * (lane.warp * tile_columns + column), __float_as_uint(t[0]));
  }

  // By the thread of column `index` of the tile's part; `column` is its place in the output.
  EPIFUSE_DEVICE void flush(void* partials, i64 pitch, int row_tile, bool on, int column, int index) const {
    float t[4];
#pragma unroll
    for (int warp = 0; warp < 4; ++warp)
      t[warp] = __uint_as_float(ptx::load_shared_32(scratch + 4 * (warp * tile_columns + index)));
    ptx::store_32(on, static_cast<u8*>(partials) + (row_tile * pitch + column) * 4,
                  __float_as_uint(R::join(R::join(t[0], t[1]), R::join(t[2], t[3]))));
  }
};

// partials[row tile][block of 32 columns]: 16 bytes at `scratch` for each block of the tile's part.
template <Reduction reduction, bool ragged>
struct TilePartials {
  using R = Reduce<reduction>;
  u32 scratch;

  // The thread's part of a block: the two halves of a value are joined before put().
  template <ColumnOrder order>
  static EPIFUSE_DEVICE float of(const Block& block, const OwnColumnsOf<order>& columns) {
    float t[own_rows];
    reduce_own_columns<reduction, false>(t, block, columns);
    const float all = R::join(R::join(t[0], t[1]), R::join(t[2], t[3]));
    return ragged && !columns.exist ? 0.f : all;
  }
  template <RowOrder order>
  EPIFUSE_DEVICE void put(float own, const LaneOf<order>& lane, int block) const {
    u32 bits;
    if constexpr (R::sums) {
#pragma unroll
      for (int mask = 1; mask < 32; mask *= 2) own = R::join(own, __shfl_xor_sync(~0u, own, mask));
      bits = __float_as_uint(own);
    } else {
      bits = __reduce_max_sync(~0u, __float_as_uint(own));  // magnitudes are ordered as their bits are, NaN behind all
    }
    ptx::store_shared_32(scratch + 16 * block + 4 * lane.warp, bits);  // the same in all lanes
  }

  EPIFUSE_DEVICE void flush(void* partials, i64 pitch, int row_tile, bool on, int block_column, int block) const {
    float t[4];
#pragma unroll
    for (int warp = 0; warp < 4; ++warp)
      t[warp] = __uint_as_float(ptx::load_shared_32(scratch + 16 * block + 4 * warp));
    ptx::store_32(on, static_cast<u8*>(partials) + (row_tile * pitch + block_column) * 4,
                  __float_as_uint(R::join(R::join(t[0], t[1]), R::join(t[2], t[3]))));
  }
};

}  // namespace epifuse
