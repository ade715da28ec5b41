// Words that all device code shares: fixed-width integers, the inlining marker, and opaque storage types. Device code
// includes nothing from the toolchain, so that the front end has a few hundred lines to read and no install path
// matters.
#pragma once

namespace epifuse {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define EPIFUSE_DEVICE __device__ __forceinline__

// A TMA descriptor as the driver encodes it; a kernel parameter holds it by value.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

// Storage types are only tags: they say how bits are stored, arithmetic is in float.
struct f32 {
  static constexpr int bytes = 4;
};
struct bf16 {
  static constexpr int bytes = 2;
};
struct f16 {
  static constexpr int bytes = 2;
};
struct e4m3 {
  static constexpr int bytes = 1;
};
struct e5m2 {
  static constexpr int bytes = 1;
};
struct e2m1 {};  // two in a byte, so it has no bytes of its own (formats/elements.cuh)
struct i32 {
  static constexpr int bytes = 4;
};

}  // namespace epifuse
