// Stand-in: conversions by base/numbers.h, and a maximum that keeps NaN.
#pragma once

#include <cmath>

#include "base/numbers.h"
#include "ptx/types.cuh"

namespace epifuse::ptx {

template <Storage storage, int bits>
u32 pack(float low, float high) {
  return encode(storage, low) | encode(storage, high) << bits;
}
inline u32 pack_bf16(float low, float high) { return pack<Storage::bf16, 16>(low, high); }
inline u32 pack_f16(float low, float high) { return pack<Storage::f16, 16>(low, high); }
inline u32 pack_e4m3(float low, float high) { return pack<Storage::e4m3, 8>(low, high); }
inline u32 pack_e5m2(float low, float high) { return pack<Storage::e5m2, 8>(low, high); }

inline float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
inline float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
inline float f16_low(u32 pair) { return static_cast<float>(decode(Storage::f16, pair & 0xffff)); }
inline float f16_high(u32 pair) { return f16_low(pair >> 16); }

inline u32 widen(Storage storage, u32 pair) {
  return pack_f16(static_cast<float>(decode(storage, pair & 0xff)),
                  static_cast<float>(decode(storage, pair >> 8 & 0xff)));
}
inline u32 e4m3_to_f16(u32 pair) { return widen(Storage::e4m3, pair); }
inline u32 e5m2_to_f16(u32 pair) { return widen(Storage::e5m2, pair); }

inline float max_nan(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

}  // namespace epifuse::ptx
