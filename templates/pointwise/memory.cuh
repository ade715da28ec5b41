// Loads and stores of single elements, and of eight neighbours at once, with the conversions of each storage type: the
// only place of the pointwise kernels that knows the width of one. Inputs go through the read-only path.
#pragma once

#include "ptx/convert.cuh"

namespace epifuse::pointwise {

template <class Storage>
struct Element;

template <>
struct Element<f32> {
  using Bits = u32;
  static EPIFUSE_DEVICE float widen(u32 bits) { return __uint_as_float(bits); }
  static EPIFUSE_DEVICE u32 narrow(float value) { return __float_as_uint(value); }
};

template <>
struct Element<bf16> {
  using Bits = u16;
  static EPIFUSE_DEVICE float widen(u32 bits) { return ptx::bf16_low(bits); }
  static EPIFUSE_DEVICE u32 narrow(float value) { return ptx::pack_bf16(value, 0.f) & 0xffff; }
};

template <>
struct Element<f16> {
  using Bits = u16;
  static EPIFUSE_DEVICE float widen(u32 bits) { return ptx::f16_low(bits); }
  static EPIFUSE_DEVICE u32 narrow(float value) { return ptx::pack_f16(value, 0.f) & 0xffff; }
};

template <>
struct Element<e4m3> {
  using Bits = u8;
  static EPIFUSE_DEVICE float widen(u32 bits) { return ptx::f16_low(ptx::e4m3_to_f16(bits)); }
  static EPIFUSE_DEVICE u32 narrow(float value) { return ptx::pack_e4m3(value, 0.f) & 0xff; }
};

template <>
struct Element<e5m2> {
  using Bits = u8;
  static EPIFUSE_DEVICE float widen(u32 bits) { return ptx::f16_low(ptx::e5m2_to_f16(bits)); }
  static EPIFUSE_DEVICE u32 narrow(float value) { return ptx::pack_e5m2(value, 0.f) & 0xff; }
};

template <class Storage>
EPIFUSE_DEVICE float load(const void* base, i64 index) {
  using E = Element<Storage>;
  return E::widen(__ldg(static_cast<const typename E::Bits*>(base) + index));
}

// What an output held: it is no input, so it is not read-only.
template <class Storage>
EPIFUSE_DEVICE float load_output(const void* base, i64 index) {
  using E = Element<Storage>;
  return E::widen(static_cast<const typename E::Bits*>(base)[index]);
}

template <class Storage>
EPIFUSE_DEVICE void store(void* base, i64 index, float value) {
  using E = Element<Storage>;
  static_cast<typename E::Bits*>(base)[index] = static_cast<typename E::Bits>(E::narrow(value));
}

template <bool read_only, class Words>
EPIFUSE_DEVICE Words load_words(const void* from) {
  if constexpr (read_only)
    return __ldg(static_cast<const Words*>(from));
  else
    return *static_cast<const Words*>(from);
}

// Eight neighbours are one access of 8 or 16 bytes, or two of 16, and lie at a multiple of that.
template <class Storage, bool read_only = true>
EPIFUSE_DEVICE void load_8(const void* base, i64 index, float (&v)[8]) {
  using E = Element<Storage>;
  const typename E::Bits* from = static_cast<const typename E::Bits*>(base) + index;
  u32 words[2 * Storage::bytes];
  if constexpr (Storage::bytes == 1) {
    const uint2 a = load_words<read_only, uint2>(from);
    words[0] = a.x, words[1] = a.y;
  } else {
#pragma unroll
    for (int i = 0; i < Storage::bytes / 2; ++i) {
      const uint4 a = load_words<read_only, uint4>(from + i * (16 / Storage::bytes));
      words[4 * i] = a.x, words[4 * i + 1] = a.y, words[4 * i + 2] = a.z, words[4 * i + 3] = a.w;
    }
  }
  constexpr int per_word = 4 / Storage::bytes, bits = 8 * Storage::bytes;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    v[i] = E::widen(static_cast<typename E::Bits>(words[i / per_word] >> (i % per_word * bits)));
}

template <class Storage>
EPIFUSE_DEVICE void store_8(void* base, i64 index, const float (&v)[8]) {
  typename Element<Storage>::Bits* to = static_cast<typename Element<Storage>::Bits*>(base) + index;
  constexpr int per_word = 4 / Storage::bytes, bits = 8 * Storage::bytes;
  u32 words[2 * Storage::bytes];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i % per_word == 0) words[i / per_word] = 0;
    words[i / per_word] |= Element<Storage>::narrow(v[i]) << (i % per_word * bits);
  }
  if constexpr (Storage::bytes == 1) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
#pragma unroll
    for (int i = 0; i < Storage::bytes / 2; ++i)
      reinterpret_cast<uint4*>(to)[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  }
}

// Reads, adds in f32, rounds once.
template <class Storage>
EPIFUSE_DEVICE void accumulate(void* base, i64 index, float value) {
  store<Storage>(base, index, load_output<Storage>(base, index) + value);
}

// A row read by index: -1 where it is negative, or not below the limit.
template <class Integer>
EPIFUSE_DEVICE int load_index(const void* base, i64 index, int limit) {
  const i64 row = __ldg(static_cast<const Integer*>(base) + index);
  return row >= 0 && row < limit ? static_cast<int>(row) : -1;
}

// The buffer of one group, from an array of pointers.
EPIFUSE_DEVICE void* buffer_at(const void* pointers, i64 index) {
  return reinterpret_cast<void*>(__ldg(static_cast<const u64*>(pointers) + index));
}

}  // namespace epifuse::pointwise
