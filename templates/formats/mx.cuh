// OCP microscaling: the scale of a block is a power of two, one E8M0 byte (numerics.md §3). mxfp8 in blocks of 32 and
// of 32 x 32, mxfp4.
#pragma once

#include "formats/policy.cuh"

namespace epifuse::formats {

// up: the smallest power of two under which the maximum does not saturate. floor: the exponent of the maximum. even:
// that after rounding to the element's mantissa. ceil: the exponent rounded up.
enum class MxRule { up, floor, even, ceil };

// Added to the maximum's bits, it carries into the exponent just where the rule rounds up.
template <class Element, MxRule rule>
constexpr u32 mx_rounding = rule == MxRule::up     ? 0x7fffff - (ElementLimits<Element>::largest_bits & 0x7fffff)
                            : rule == MxRule::even ? 1u << (22 - ElementLimits<Element>::mantissa)
                            : rule == MxRule::ceil ? 0x7fffff
                                                   : 0;

template <class ElementType, MxRule rule, NonFinite nonfinite>
struct MxFormat {
  using Element = ElementType;
  using ScaleCode = u8;
  struct Setup {};
  using Scale = formats::Scale;

  static EPIFUSE_DEVICE Setup setup() { return {}; }
  static EPIFUSE_DEVICE u32 magnitude(float value) { return magnitude_under<nonfinite>(value); }

  // No finite maximum gives a byte above 253, so the inverse is a normal number.
  static EPIFUSE_DEVICE Scale scale(u32 largest, const Setup&) {
    if (largest >= infinity_bits)
      return nonfinite == NonFinite::te ? Scale{0xfe, __uint_as_float(0x00400000)}
                                        : Scale{0xff, __uint_as_float(nan_bits)};
    const int exponent =
        static_cast<int>((largest + mx_rounding<Element, rule>) >> 23) - ElementLimits<Element>::exponent;
    const u32 byte = static_cast<u32>(max(exponent, 0));
    return {byte, __uint_as_float((254 - byte) << 23)};
  }

  static EPIFUSE_DEVICE float scaled(float value, const Scale& scale) { return __fmul_rn(value, scale.factor); }
};

}  // namespace epifuse::formats
