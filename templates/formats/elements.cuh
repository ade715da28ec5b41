// The narrow element types of scaled outputs: 8-bit e4m3 and e5m2 by instruction, 4-bit e2m1 in software, which sm_90
// has no instruction for. All round to nearest even and saturate at the largest value; a NaN becomes the code 0x7f, or
// 0x7 (+6) of e2m1. The stochastic forms take eight random bits a value and differ in nothing else.
#pragma once

#include "ptx/convert.cuh"

namespace epifuse::formats {

constexpr u32 magnitude_bits = 0x7fffffff;
constexpr u32 infinity_bits = 0x7f800000;
constexpr u32 nan_bits = 0x7fc00000;

// bits: of a code. mantissa, bias: of the type. exponent: of its largest value, whose f32 bits and code are given.
template <class Element>
struct ElementLimits;
template <>
struct ElementLimits<e4m3> {
  static constexpr int bits = 8, mantissa = 3, bias = 7, exponent = 8;
  static constexpr float largest = 448.f;
  static constexpr u32 largest_bits = 0x43e00000, largest_code = 0x7e, nan_code = 0x7f;
};
template <>
struct ElementLimits<e5m2> {
  static constexpr int bits = 8, mantissa = 2, bias = 15, exponent = 15;
  static constexpr float largest = 57344.f;
  static constexpr u32 largest_bits = 0x47600000, largest_code = 0x7b, nan_code = 0x7f;
};
template <>
struct ElementLimits<e2m1> {
  static constexpr int bits = 4, mantissa = 1, bias = 1, exponent = 2;
  static constexpr float largest = 6.f;
  static constexpr u32 largest_bits = 0x40c00000, largest_code = 0x7, nan_code = 0x7;
};

// With integers alone (numerics.md §9.1): from 1 on the carry of the rounding steps through the codes; below there are
// two thresholds, whose ties go to the even codes 0 and 2.
EPIFUSE_DEVICE u32 narrow_e2m1(float value) {
  const u32 bits = __float_as_uint(value), magnitude = bits & magnitude_bits;
  const u32 capped = min(magnitude, ElementLimits<e2m1>::largest_bits);
  const u32 from_one = ((capped + 0x1fffff + (capped >> 22 & 1)) >> 22) - 252;
  const u32 below_one = (capped > 0x3e800000 ? 1 : 0) + (capped >= 0x3f400000 ? 1 : 0);
  return (capped < 0x3f800000 ? below_one : from_one) | (magnitude > infinity_bits ? 0 : bits >> 28 & 8);
}

// One code.
template <class Element>
EPIFUSE_DEVICE u32 narrow(float value);
template <>
EPIFUSE_DEVICE u32 narrow<e4m3>(float value) {
  return ptx::pack_e4m3(value, 0.f) & 0xff;
}
template <>
EPIFUSE_DEVICE u32 narrow<e5m2>(float value) {
  return ptx::pack_e5m2(value, 0.f) & 0xff;
}
template <>
EPIFUSE_DEVICE u32 narrow<e2m1>(float value) {
  return narrow_e2m1(value);
}

// Two neighbours, the first in the low bits: 16 bits, or one byte of e2m1.
template <class Element>
EPIFUSE_DEVICE u32 narrow_2(float first, float second);
template <>
EPIFUSE_DEVICE u32 narrow_2<e4m3>(float first, float second) {
  return ptx::pack_e4m3(first, second);
}
template <>
EPIFUSE_DEVICE u32 narrow_2<e5m2>(float first, float second) {
  return ptx::pack_e5m2(first, second);
}
template <>
EPIFUSE_DEVICE u32 narrow_2<e2m1>(float first, float second) {
  return narrow_e2m1(first) | narrow_e2m1(second) << 4;
}

// Four neighbours: 32 bits, or 16 of e2m1.
template <class Element>
EPIFUSE_DEVICE u32 narrow_4(float a, float b, float c, float d) {
  return narrow_2<Element>(a, b) | narrow_2<Element>(c, d) << (2 * ElementLimits<Element>::bits);
}

// Rounds |value| + (random / 256) * step down to the type's grid, where step is the distance between the type's values
// around |value| (numerics.md §4.6, §9.2). From the smallest normal value on, the random bits are added on top of the
// bits that do not fit; below it, where the step is constant, in fixed point of 24 bits. `random`: 0 to 255.
template <class Element>
EPIFUSE_DEVICE u32 narrow_stochastic(float value, u32 random) {
  using Limits = ElementLimits<Element>;
  constexpr int lost = 23 - Limits::mantissa;
  constexpr u32 smallest_normal = static_cast<u32>(128 - Limits::bias) << 23;
  const u32 bits = __float_as_uint(value), magnitude = bits & magnitude_bits;
  if (magnitude > infinity_bits) return Limits::nan_code;
  const u32 capped = min(magnitude, Limits::largest_bits);
  u32 code;
  if (capped >= smallest_normal) {
    code = ((capped + (random << (lost - 8))) >> lost) - (static_cast<u32>(127 - Limits::bias) << Limits::mantissa);
  } else {
    // 2^24 / the smallest normal value: exact.
    constexpr u32 unit = static_cast<u32>(127 + 23 + Limits::bias) << 23;
    const u32 fixed = static_cast<u32>(__fmul_rn(__uint_as_float(capped), __uint_as_float(unit)));
    code = (fixed + (random << (lost - 7))) >> (lost + 1);
  }
  return min(code, Limits::largest_code) | (bits >> 31) << (Limits::bits - 1);
}

}  // namespace epifuse::formats
