// Stand-in: the conversions by the exact ones of the test. The numbers are those of epifuse::Storage.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

constexpr int host_bf16 = 1, host_f16 = 2, host_e4m3 = 3, host_e5m2 = 4;

inline u32 pack_bf16(float low, float high) {
  return host::encode(host_bf16, low) | host::encode(host_bf16, high) << 16;
}
inline u32 pack_f16(float low, float high) { return host::encode(host_f16, low) | host::encode(host_f16, high) << 16; }
inline u32 pack_e4m3(float low, float high) {
  return host::encode(host_e4m3, low) | host::encode(host_e4m3, high) << 8;
}
inline u32 pack_e5m2(float low, float high) {
  return host::encode(host_e5m2, low) | host::encode(host_e5m2, high) << 8;
}

inline float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
inline float f16_low(u32 pair) { return static_cast<float>(host::decode(host_f16, pair & 0xffff)); }
inline u32 e4m3_to_f16(u32 pair) { return host::encode(host_f16, host::decode(host_e4m3, pair & 0xff)); }
inline u32 e5m2_to_f16(u32 pair) { return host::encode(host_f16, host::decode(host_e5m2, pair & 0xff)); }

}  // namespace epifuse::ptx
