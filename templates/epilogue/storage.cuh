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

// Two values, each on its own condition. They are converted as a pair all the same (see math.cuh, round_bf16).
template <class Storage>
EPIFUSE_DEVICE void store_2_single_values(bool on_a, bool on_b, u8* to_a, u8* to_b, float a, float b) {
  if constexpr (Storage::bytes == 4) {
    ptx::store_32(on_a, to_a, __float_as_uint(a));
    ptx::store_32(on_b, to_b, __float_as_uint(b));
  } else {
    const u32 pair = Codec<Storage>::pack2(a, b);
    if constexpr (Storage::bytes == 2) {
      ptx::store_16(on_a, to_a, pair);
      ptx::store_16(on_b, to_b, pair >> 16);
    } else {
      ptx::store_8(on_a, to_a, pair & 0xff);
      ptx::store_8(on_b, to_b, pair >> 8 & 0xff);
    }
  }
}

template <class Storage>
EPIFUSE_DEVICE void store_1_value(bool on, u8* to, float value) {
  store_2_single_values<Storage>(on, false, to, to, value, value);
}

// What a buffer of f32, bf16 or f16 held before (`+=`); zero where it is off.
template <class Storage>
EPIFUSE_DEVICE float load_old_value(bool on, const u8* from) {
  if constexpr (Storage::bytes == 4)
    return __uint_as_float(ptx::load_old_32(on, from));
  else
    return Codec<Storage>::low(ptx::load_old_16(on, from));
}

template <class Storage>
EPIFUSE_DEVICE void load_8_old_values(bool on, const u8* from, float (&v)[8]) {
  if constexpr (Storage::bytes == 4)
    Codec<f32>::unpack8(ptx::load_old_128(on, from), ptx::load_old_128(on, from + 16), v);
  else
    unpack8<Storage>(ptx::load_old_128(on, from), v);
}

template <class Storage>
EPIFUSE_DEVICE void load_4_old_values(bool on, const u8* from, float (&v)[4]) {
  if constexpr (Storage::bytes == 4) {
    const uint4 bits = ptx::load_old_128(on, from);
    v[0] = __uint_as_float(bits.x), v[1] = __uint_as_float(bits.y);
    v[2] = __uint_as_float(bits.z), v[3] = __uint_as_float(bits.w);
  } else {
    const uint2 bits = ptx::load_old_64(on, from);
    v[0] = Codec<Storage>::low(bits.x), v[1] = Codec<Storage>::high(bits.x);
    v[2] = Codec<Storage>::low(bits.y), v[3] = Codec<Storage>::high(bits.y);
  }
}

}  // namespace epifuse
