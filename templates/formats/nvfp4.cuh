// NVFP4: e2m1 codes in blocks of 16 (or 16 x 16) with an e4m3 scale, under an f32 scale of the whole tensor or group
// that follows from its largest magnitude (numerics.md §4.6).
#pragma once

#include "formats/policy.cuh"

namespace epifuse::formats {

// The order of operations of Transformer Engine, or of torchao, which never lets a block's scale fall below 2^-6.
enum class NvRule { up, torchao };

template <NvRule rule, NonFinite nonfinite>
struct Nvfp4 {
  using Element = e2m1;
  using ScaleCode = u8;
  // up: of the tensor's encoding scale S = 2688 / amax, S / 6 and 1 / S. torchao: its inverse amax / 2688, and again
  // the inverse of that.
  struct Setup {
    float encode, decode;
  };
  using Scale = formats::Scale;

  // Without a maximum the tensor's scale is 1.
  static EPIFUSE_DEVICE Setup setup() { return setup_of(1.f); }
  // amax: of the whole tensor or group, 6 * 448 of which are encoded as 1. Of none, or too large a one, the scale is 1.
  static EPIFUSE_DEVICE Setup setup(float amax) {
    if constexpr (rule == NvRule::up) {
      const float scale = fminf(__fdiv_rn(2688.f, amax), __uint_as_float(largest_f32_bits));
      return setup_of(amax == 0.f || scale == 0.f ? 1.f : scale);
    } else {
      const float scale = __fdiv_rn(amax, 2688.f);
      return setup_of(scale == 0.f ? 1.f : scale);
    }
  }

  static EPIFUSE_DEVICE u32 magnitude(float value) { return magnitude_under<nonfinite>(value); }

  static EPIFUSE_DEVICE Scale scale(u32 largest, const Setup& setup) {
    if constexpr (nonfinite == NonFinite::propagate)
      if (largest >= infinity_bits) return {ElementLimits<e4m3>::nan_code, __uint_as_float(nan_bits)};
    const float amax = __uint_as_float(largest), largest_f32 = __uint_as_float(largest_f32_bits);
    if constexpr (rule == NvRule::up) {
      const u32 code = narrow<e4m3>(fminf(__fmul_rn(amax, setup.encode), largest_f32));
      return {code, fminf(__fdiv_rn(1.f, __fmul_rn(widen_e4m3(code), setup.decode)), largest_f32)};
    } else {
      constexpr float lowest = 0x1p-6f, highest = ElementLimits<e4m3>::largest;
      const float wanted = __fdiv_rn(__fdiv_rn(amax, 6.f), setup.encode);
      const u32 code = narrow<e4m3>(wanted < lowest ? lowest : wanted > highest ? highest : wanted);
      return {code, __fdiv_rn(setup.decode, widen_e4m3(code))};
    }
  }

  // torchao's clamp to 6 is the saturation of the conversion.
  static EPIFUSE_DEVICE float scaled(float value, const Scale& scale) { return __fmul_rn(value, scale.factor); }

 private:
  static EPIFUSE_DEVICE Setup setup_of(float scale) {
    const float inverse = __fdiv_rn(1.f, scale);
    if constexpr (rule == NvRule::up) return {__fmul_rn(scale, 1.f / 6.f), inverse};
    return {scale, inverse};
  }
  static EPIFUSE_DEVICE float widen_e4m3(u32 code) { return ptx::f16_low(ptx::e4m3_to_f16(code)); }
};

}  // namespace epifuse::formats
