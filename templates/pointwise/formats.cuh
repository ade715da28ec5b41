// Scaled types: what a block's scale is, and the codes under it. A quantiser takes the bits of the block's largest
// magnitude, in which NaN and infinity are the largest.
#pragma once

#include "pointwise/memory.cuh"

namespace epifuse::pointwise {

template <class Element>
struct LargestOf;
template <>
struct LargestOf<e4m3> {
  static constexpr int exponent = 8;          // 448 = 1.75 * 2^8
  static constexpr u32 half_step = 1u << 19;  // half of the last mantissa bit, as f32 bits
};
template <>
struct LargestOf<e5m2> {
  static constexpr int exponent = 15;  // 57344 = 1.75 * 2^15
  static constexpr u32 half_step = 1u << 20;
};

// OCP microscaling: a power of two, one byte. Adding to the bits of the maximum carries into its exponent just where
// the rule rounds up. A block with NaN or an infinity has the scale NaN.
template <class Storage, u32 added>
struct MxScale {
  using Codes = Storage;
  static constexpr u32 nan = 255;

  static EPIFUSE_DEVICE u32 scale(u32 largest) {
    if (largest >= 0x7f800000u) return nan;
    const int exponent = static_cast<int>((largest + added) >> 23) - LargestOf<Storage>::exponent;
    return exponent > 0 ? static_cast<u32>(exponent) : 0;
  }
  // 2^(127 - scale), or NaN, so that every code of the block is NaN. No finite maximum gives 254.
  static EPIFUSE_DEVICE float inverse(u32 scale) {
    return __uint_as_float(scale == nan ? 0x7fc00000u : (254 - scale) << 23);
  }
  static EPIFUSE_DEVICE u32 code(float value, float inverse) { return Element<Storage>::narrow(value * inverse); }
  static EPIFUSE_DEVICE void store_scale(void* scales, i64 index, u32 scale) {
    static_cast<u8*>(scales)[index] = static_cast<u8>(scale);
  }
};

// The smallest power of two under which the maximum does not saturate; the exponent of the maximum; that after rounding
// to the element's mantissa; the exponent rounded up.
template <class Storage>
struct MxUp : MxScale<Storage, 0x1fffff> {};
template <class Storage>
struct MxFloor : MxScale<Storage, 0> {};
template <class Storage>
struct MxEven : MxScale<Storage, LargestOf<Storage>::half_step> {};
template <class Storage>
struct MxCeil : MxScale<Storage, 0x7fffff> {};

}  // namespace epifuse::pointwise
