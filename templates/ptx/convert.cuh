// Conversions between float and storage types, one instruction each (or the bit operation that equals it). All round to
// nearest even; conversions to 8 bits saturate to the largest finite value, and a NaN stays one.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

EPIFUSE_DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
EPIFUSE_DEVICE u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
EPIFUSE_DEVICE u32 pack_e4m3(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
EPIFUSE_DEVICE u32 pack_e5m2(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}

EPIFUSE_DEVICE float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
EPIFUSE_DEVICE float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

EPIFUSE_DEVICE float f16_low(u32 pair) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(static_cast<u16>(pair)));
  return r;
}
EPIFUSE_DEVICE float f16_high(u32 pair) { return f16_low(pair >> 16); }

// Both fp8 types widen to f16 exactly.
EPIFUSE_DEVICE u32 e4m3_to_f16(u32 pair) {
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(static_cast<u16>(pair)));
  return r;
}
EPIFUSE_DEVICE u32 e5m2_to_f16(u32 pair) {
  u32 r;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(static_cast<u16>(pair)));
  return r;
}

// The larger of two floats; NaN if either is one. fmaxf would drop it.
EPIFUSE_DEVICE float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
EPIFUSE_DEVICE float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// Both 16-bit halves at once.
EPIFUSE_DEVICE u32 max_u16x2(u32 a, u32 b) {
  u32 r;
  asm("max.u16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

}  // namespace epifuse::ptx
