// The functions of the language on one f32. + - * are the compiler's; / and sqrtf round once; the others are good to
// 2^-20 relative (language.md V6). min and max keep NaN.
#pragma once

#include "ptx/convert.cuh"

namespace epifuse::math {

EPIFUSE_DEVICE float minimum(float a, float b) { return ptx::min_nan(a, b); }
EPIFUSE_DEVICE float maximum(float a, float b) { return ptx::max_nan(a, b); }
EPIFUSE_DEVICE float clamp(float x, float low, float high) { return minimum(maximum(x, low), high); }
EPIFUSE_DEVICE float select(float condition, float a, float b) { return condition != 0.f ? a : b; }
EPIFUSE_DEVICE float truth(bool value) { return value ? 1.f : 0.f; }

// 1 / (1 + e^-x). t = -x*log2(e) is rounded, which for large |t| would cost the result more than 2^-20; `lost` is what
// the rounding lost, and corrects the power. Rounded down, t loses 0 or more, but for the constants' own errors below
// 2^-21; so `lost` may be saturated to [0, 1], which also makes 0 of the infinity minus infinity where x is infinite.
// The correction is a factor of at least 1, so that a power of 0 or infinity stays what it is. Where the result would
// be subnormal it is 0.
EPIFUSE_DEVICE float sigmoid(float x) {
  const float t = __fmul_rd(x, -1.4426950408889634f);
  float power, lost, result;
  asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;" : "=f"(lost) : "f"(t), "f"(-0.6931471805599453f), "f"(-x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(t));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fmaf_rn(power, 1.f + lost, 1.f)));
  return result;
}

// The value goes into the high half of a pair. Converted alone in the low half, a bare accumulator makes the assembler
// take the conversion for one that defines accumulator registers, and wait after every wgmma (C7514).
EPIFUSE_DEVICE float round_bf16(float x) { return ptx::bf16_high(ptx::pack_bf16(0.f, x)); }
EPIFUSE_DEVICE float round_f16(float x) { return ptx::f16_high(ptx::pack_f16(0.f, x)); }
EPIFUSE_DEVICE float round_e4m3(float x) { return ptx::f16_low(ptx::e4m3_to_f16(ptx::pack_e4m3(x, 0.f))); }
EPIFUSE_DEVICE float round_e5m2(float x) { return ptx::f16_low(ptx::e5m2_to_f16(ptx::pack_e5m2(x, 0.f))); }

}  // namespace epifuse::math
