// The orthonormal 16-point rotation of a block, along its columns or its rows, in place:
//   y_c = 1/4 * sum over r of s_r x_r (-1)^popcount(r & c), with s_r = -1 where bit r of `signs` is set.
// Blocks of 16 are counted from the block's first column, and from row 0 of the tile; what does not exist must be zero
// there. No sum is fused with the products that made its terms, and a zero is +0.
#pragma once

#include "atom/ownership.cuh"

namespace epifuse {

// A step along an index bit that two of the thread's own elements differ in.
EPIFUSE_DEVICE void rotate_pair(float& lower, float& upper) {
  const float sum = __fadd_rn(lower, upper);
  upper = __fadd_rn(lower, -upper);
  lower = sum;
}

// … and along one that two lanes differ in.
template <int count>
EPIFUSE_DEVICE void rotate_lanes(float (&v)[count], int lane_mask, bool upper) {
  const float sign = upper ? -1.f : 1.f;
#pragma unroll
  for (int n = 0; n < count; ++n) v[n] = __fmaf_rn(sign, v[n], __shfl_xor_sync(~0u, v[n], lane_mask));
}

// The last step: a quarter, of which adding +0 takes the sign of a zero.
EPIFUSE_DEVICE float quarter(float v) { return __fmaf_rn(v, 0.25f, 0.f); }

// The sign that bit `bit` of `signs` says.
EPIFUSE_DEVICE float flipped(float v, u32 signs, int bit) {
  return __uint_as_float(__float_as_uint(v) ^ (signs << (31 - bit) & 0x80000000u));
}

// Two lanes of a quad have the 16 columns.
template <u32 signs, RowOrder order>
EPIFUSE_DEVICE void hadamard_columns(Block& block, const LaneOf<order>& lane) {
  static_assert(signs <= 0xFFFF, "one bit for each of 16 columns");
  const bool upper = lane.l & 1;
  const u32 own_signs = signs >> (upper ? 8 : 0);
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    float(&v)[own_columns] = block.v[i];
#pragma unroll
    for (int c = 0; c < own_columns; ++c)
      if (signs != 0) v[c] = flipped(v[c], own_signs, c);
#pragma unroll
    for (int step = 1; step < own_columns; step *= 2)
#pragma unroll
      for (int c = 0; c < own_columns; ++c)
        if (!(c & step)) rotate_pair(v[c], v[c + step]);
    rotate_lanes(v, 1, upper);
#pragma unroll
    for (int c = 0; c < own_columns; ++c) v[c] = quarter(v[c]);
  }
}

// In consecutive order four lanes (q) have the 16 rows, four neighbours each; in natural order eight, each with two
// that lie 8 apart in both of its blocks.
template <u32 signs, RowOrder order>
EPIFUSE_DEVICE void hadamard_rows(Block& block, const LaneOf<order>& lane) {
  static_assert(signs <= 0xFFFF, "one bit for each of 16 rows");
  constexpr bool natural = order == RowOrder::natural;
  const u32 own_signs = signs >> (natural ? lane.q : 4 * (lane.q & 3));
#pragma unroll
  for (int c = 0; c < own_columns; ++c) {
    float v[own_rows];
#pragma unroll
    for (int i = 0; i < own_rows; ++i)
      v[i] = signs != 0 ? flipped(block.v[i][c], own_signs, natural ? 8 * (i & 1) : i) : block.v[i][c];
    rotate_pair(v[0], v[1]);
    rotate_pair(v[2], v[3]);
    if (!natural) {
      rotate_pair(v[0], v[2]);
      rotate_pair(v[1], v[3]);
    }
    // The lane's index is 4q + l.
#pragma unroll
    for (int bit = 1; bit < (natural ? 8 : 4); bit *= 2) rotate_lanes(v, 4 * bit, lane.q & bit);
#pragma unroll
    for (int i = 0; i < own_rows; ++i) block.v[i][c] = quarter(v[i]);
  }
}

}  // namespace epifuse
