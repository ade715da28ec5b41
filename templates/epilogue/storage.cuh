// Packing of floats into each storage type, four or eight at a time, and unpacking: the only place that knows the width
// of a storage type. Adding one means adding its two functions here.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/memory.cuh"

namespace epifuse {

template <class Storage>
struct Codec;

template <>
struct Codec<f32> {
  static EPIFUSE_DEVICE void unpack8(uint4 a, uint4 b, float (&v)[8]) {
    const u32 w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(w[i]);
  }
};

template <>
struct Codec<bf16> {
  static EPIFUSE_DEVICE u32 pack2(float a, float b) { return ptx::pack_bf16(a, b); }
  static EPIFUSE_DEVICE float low(u32 pair) { return ptx::bf16_low(pair); }
  static EPIFUSE_DEVICE float high(u32 pair) { return ptx::bf16_high(pair); }
};

template <>
struct Codec<f16> {
  static EPIFUSE_DEVICE u32 pack2(float a, float b) { return ptx::pack_f16(a, b); }
  static EPIFUSE_DEVICE float low(u32 pair) { return ptx::f16_low(pair); }
  static EPIFUSE_DEVICE float high(u32 pair) { return ptx::f16_high(pair); }
};

template <>
struct Codec<e4m3> {
  static EPIFUSE_DEVICE u32 pack2(float a, float b) { return ptx::pack_e4m3(a, b); }
  static EPIFUSE_DEVICE u32 widen2(u32 pair) { return ptx::e4m3_to_f16(pair); }
};

template <>
struct Codec<e5m2> {
  static EPIFUSE_DEVICE u32 pack2(float a, float b) { return ptx::pack_e5m2(a, b); }
  static EPIFUSE_DEVICE u32 widen2(u32 pair) { return ptx::e5m2_to_f16(pair); }
};

// Eight values that lie one behind the other, from 16 bytes (16-bit types) or 8 bytes (8-bit types).
template <class Storage>
EPIFUSE_DEVICE void unpack8(uint4 bits, float (&v)[8]) {
  const u32 w[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = Codec<Storage>::low(w[i]);
    v[2 * i + 1] = Codec<Storage>::high(w[i]);
  }
}

template <class Storage>
EPIFUSE_DEVICE void unpack8(uint2 bits, float (&v)[8]) {
  const u32 w[4] = {bits.x, bits.x >> 16, bits.y, bits.y >> 16};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 wide = Codec<Storage>::widen2(w[i]);
    v[2 * i] = ptx::f16_low(wide);
    v[2 * i + 1] = ptx::f16_high(wide);
  }
}

// Stores eight (or four) neighbours in one access.
template <class Storage>
EPIFUSE_DEVICE void store_8_values(bool on, u8* to, const float (&v)[8]) {
  using C = Codec<Storage>;
  if constexpr (Storage::bytes == 4) {
    ptx::store_128(on, to, __float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
    ptx::store_128(on, to + 16, __float_as_uint(v[4]), __float_as_uint(v[5]), __float_as_uint(v[6]),
                   __float_as_uint(v[7]));
  } else if constexpr (Storage::bytes == 2) {
    ptx::store_128(on, to, C::pack2(v[0], v[1]), C::pack2(v[2], v[3]), C::pack2(v[4], v[5]), C::pack2(v[6], v[7]));
  } else {
    ptx::store_64(on, to, C::pack2(v[0], v[1]) | C::pack2(v[2], v[3]) << 16,
                  C::pack2(v[4], v[5]) | C::pack2(v[6], v[7]) << 16);
  }
}

template <class Storage>
EPIFUSE_DEVICE void store_4_values(bool on, u8* to, float a, float b, float c, float d) {
  using C = Codec<Storage>;
  if constexpr (Storage::bytes == 4) {
    ptx::store_128(on, to, __float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d));
  } else if constexpr (Storage::bytes == 2) {
    ptx::store_64(on, to, C::pack2(a, b), C::pack2(c, d));
  } else {
    ptx::store_32(on, to, C::pack2(a, b) | C::pack2(c, d) << 16);
  }
}

// Two neighbours, each on its own condition. They are converted as a pair all the same (see math.cuh, round_bf16).
template <class Storage>
EPIFUSE_DEVICE void store_2_single_values(bool on_a, bool on_b, u8* to, float a, float b) {
  if constexpr (Storage::bytes == 4) {
    ptx::store_32(on_a, to, __float_as_uint(a));
    ptx::store_32(on_b, to + 4, __float_as_uint(b));
  } else {
    const u32 pair = Codec<Storage>::pack2(a, b);
    if constexpr (Storage::bytes == 2) {
      ptx::store_16(on_a, to, pair);
      ptx::store_16(on_b, to + 2, pair >> 16);
    } else {
      ptx::store_8(on_a, to, pair & 0xff);
      ptx::store_8(on_b, to + 1, pair >> 8 & 0xff);
    }
  }
}

}  // namespace epifuse
