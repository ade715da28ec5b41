// Stand-in: the functions of the language by the host's.
#pragma once

#include "ptx/convert.cuh"

inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }

namespace epifuse::math {

inline float minimum(float a, float b) { return a != a || b < a ? a != a ? a : b : b != b ? b : a; }
inline float maximum(float a, float b) { return a != a || b > a ? a != a ? a : b : b != b ? b : a; }
inline float clamp(float x, float low, float high) { return minimum(maximum(x, low), high); }
inline float select(float condition, float a, float b) { return condition != 0.f ? a : b; }
inline float truth(bool value) { return value ? 1.f : 0.f; }
inline float sigmoid(float x) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x)))); }

inline float round_to(int storage, float x) {
  return static_cast<float>(host::decode(storage, host::encode(storage, x)));
}
inline float round_bf16(float x) { return round_to(ptx::host_bf16, x); }
inline float round_f16(float x) { return round_to(ptx::host_f16, x); }
inline float round_e4m3(float x) { return round_to(ptx::host_e4m3, x); }
inline float round_e5m2(float x) { return round_to(ptx::host_e5m2, x); }

}  // namespace epifuse::math
