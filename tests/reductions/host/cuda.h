// The words of CUDA that the templates of reductions use, for the threads of host/cta.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/reductions/host/cta.h"

#define __device__
#define __forceinline__ inline
#define __shared__ static
#define threadIdx (host::Cta::current().thread)
#define blockIdx (host::Cta::current().block)

using std::max;
using std::min;

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};

inline uint32_t __float_as_uint(float v) { return std::bit_cast<uint32_t>(v); }
inline float __uint_as_float(uint32_t v) { return std::bit_cast<float>(v); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __ffs(int v) { return __builtin_ffs(v); }

template <class T>
T __ldg(const T* from) {
  return *from;
}

template <class T>
T exchanged(T value, unsigned lane) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(host::Cta::current().exchange(std::bit_cast<uint32_t>(value))[lane & 31]);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return exchanged(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return exchanged(value, threadIdx.x ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const unsigned lane = threadIdx.x & 31, by = static_cast<unsigned>(distance);
  return exchanged(value, lane < by ? lane : lane - by);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  const uint32_t* all = host::Cta::current().exchange(value);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= all[lane] << lane;
  return bits;
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const uint32_t* all = host::Cta::current().exchange(value);
  return *std::max_element(all, all + 32);
}
inline void __syncthreads() { host::Cta::current().barrier(0, host::Cta::current().threads()); }
