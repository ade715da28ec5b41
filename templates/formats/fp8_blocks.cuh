// FP8 with f32 scales, by which codes are multiplied to get the values back: fp8_1x128 and fp8_128x128
// (numerics.md §4.1, §4.2). The rules are those of the libraries that read such tensors, each in its own order of
// operations.
#pragma once

#include "formats/policy.cuh"

namespace epifuse::formats {

// te_pow2: the power of two that rule `up` of the MX types gives. te_f32: 1 / (largest / amax). deepgemm: amax /
// largest of an amax of at least 1e-4, codes by its reciprocal. torchao: te_f32 of an amax of at least 1e-12. vllm:
// amax / largest of an amax of at least 1e-10, codes by true division.
enum class Fp8Rule { te_pow2, te_f32, deepgemm, torchao, vllm };

template <class ElementType, Fp8Rule rule, NonFinite nonfinite>
struct Fp8Blocks {
  using Element = ElementType;
  using ScaleCode = float;
  struct Setup {};
  using Scale = formats::Scale;

  static EPIFUSE_DEVICE Setup setup() { return {}; }
  static EPIFUSE_DEVICE u32 magnitude(float value) { return magnitude_under<nonfinite>(value); }

  static EPIFUSE_DEVICE Scale scale(u32 largest, const Setup&) {
    constexpr float element_largest = ElementLimits<Element>::largest;
    if (largest >= infinity_bits) {
      const float factor = nonfinite == NonFinite::te ? 1.f : __uint_as_float(nan_bits);
      return {__float_as_uint(factor), factor};
    }
    float amax = __uint_as_float(largest);
    if constexpr (rule == Fp8Rule::te_pow2 || rule == Fp8Rule::te_f32) {
      if (largest == 0) return {__float_as_uint(1.f), 1.f};
      u32 bits = min(__float_as_uint(__fdiv_rn(element_largest, amax)), largest_f32_bits);
      if constexpr (rule == Fp8Rule::te_pow2) bits &= infinity_bits;
      return {__float_as_uint(__fdiv_rn(1.f, __uint_as_float(bits))), __uint_as_float(bits)};
    } else if constexpr (rule == Fp8Rule::torchao) {
      // torchao divides in double, which rounds to the same f32; its clamp before the conversion is the saturation.
      const float inverse = __fdiv_rn(element_largest, fmaxf(amax, 1e-12f));
      return {__float_as_uint(__fdiv_rn(1.f, inverse)), inverse};
    } else {
      amax = fmaxf(amax, rule == Fp8Rule::deepgemm ? 1e-4f : 1e-10f);
      const float stored = __fdiv_rn(amax, element_largest);
      return {__float_as_uint(stored), rule == Fp8Rule::deepgemm ? __fdiv_rn(1.f, stored) : stored};
    }
  }

  static EPIFUSE_DEVICE float scaled(float value, const Scale& scale) {
    return rule == Fp8Rule::vllm ? __fdiv_rn(value, scale.factor) : __fmul_rn(value, scale.factor);
  }
};

}  // namespace epifuse::formats
