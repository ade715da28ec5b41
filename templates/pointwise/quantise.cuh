// What stores scaled types (formats/policy.cuh) element by element: codes and scales, where tiles of scales lie, and
// random bits.
#pragma once

#include "formats/fp8_blocks.cuh"
#include "formats/mx.cuh"
#include "formats/nvfp4.cuh"
#include "formats/philox.cuh"
#include "pointwise/memory.cuh"

namespace epifuse::pointwise {

// `width` neighbours, whose place is a multiple of width: eight, two codes of 4 bits, or one of 8.
template <class Element, int width>
EPIFUSE_DEVICE void store_codes(void* base, i64 index, const u32 (&codes)[width]) {
  constexpr int bits = formats::ElementLimits<Element>::bits;
  u8* to = static_cast<u8*>(base) + index * bits / 8;
  u32 words[2] = {};
#pragma unroll
  for (int i = 0; i < width; ++i) words[i * bits / 32] |= codes[i] << (i * bits % 32);
  if constexpr (width * bits == 64) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else if constexpr (width * bits == 32) {
    *reinterpret_cast<u32*>(to) = words[0];
  } else {
    static_assert(width * bits == 8, "codes that fill no word");
    *to = static_cast<u8>(words[0]);
  }
}

template <class ScaleCode>
EPIFUSE_DEVICE void store_scale(void* base, i64 index, u32 code) {
  if constexpr (sizeof(ScaleCode) == 1)
    static_cast<u8*>(base)[index] = static_cast<u8>(code);
  else
    static_cast<u32*>(base)[index] = code;
}

EPIFUSE_DEVICE u32 largest_of_warp(u32 largest) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, distance));
  return largest;
}

// The byte of the scale of block k of row `outer`, in a matrix of so many tiles side by side (numerics.md §6.2).
EPIFUSE_DEVICE i64 tiled_scale(int outer, int k, int tiles) {
  return (i64{outer / 128} * tiles + k / 4) * 512 + outer % 32 * 16 + outer % 128 / 32 * 4 + k % 4;
}

// By a warp.
EPIFUSE_DEVICE void clear_scale_tile(void* scales, i64 tile) {
  static_cast<uint4*>(scales)[tile * 32 + threadIdx.x % 32] = uint4{0, 0, 0, 0};
}

// Bits of the elements from (row, column) on along the row; eight of them from a multiple of 4.
template <int width>
EPIFUSE_DEVICE void random_bits(const formats::RandomSource& source, int row, int column, int matrix,
                                u32 (&random)[width]) {
  constexpr int at_once = width < 4 ? width : 4;
#pragma unroll
  for (int first = 0; first < width; first += at_once) {
    const formats::RandomBytes bytes = source.bytes(row, column + first, matrix);
#pragma unroll
    for (int i = 0; i < at_once; ++i) random[first + i] = bytes.at(row, column + first + i);
  }
}

}  // namespace epifuse::pointwise
