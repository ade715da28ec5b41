// Global and shared accesses of a thread. Global stores are predicated inside the instruction: a branch would cut the
// epilogue into basic blocks and keep the compiler from overlapping its chains. They do not ask for early eviction
// (.cs): that was measured 1 to 2.5 % slower, since lines of scales are filled by several tiles, one after the other.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

#define EPIFUSE_STORE(name, suffix, operands, ...)                                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n@p st.global" suffix " [%0], " operands ";\n}" ::"l"(to), \
               "r"(static_cast<int>(on)), __VA_ARGS__                                                              \
               : "memory")

EPIFUSE_DEVICE void store_128(bool on, void* to, u32 a, u32 b, u32 c, u32 d) {
  EPIFUSE_STORE(128, ".v4.u32", "{%2, %3, %4, %5}", "r"(a), "r"(b), "r"(c), "r"(d));
}
EPIFUSE_DEVICE void store_64(bool on, void* to, u32 a, u32 b) {
  EPIFUSE_STORE(64, ".v2.u32", "{%2, %3}", "r"(a), "r"(b));
}
EPIFUSE_DEVICE void store_32(bool on, void* to, u32 a) { EPIFUSE_STORE(32, ".u32", "%2", "r"(a)); }
EPIFUSE_DEVICE void store_16(bool on, void* to, u32 a) { EPIFUSE_STORE(16, ".u16", "%2", "h"(static_cast<u16>(a))); }
EPIFUSE_DEVICE void store_8(bool on, void* to, u32 a) { EPIFUSE_STORE(8, ".u8", "%2", "r"(a)); }

#undef EPIFUSE_STORE

EPIFUSE_DEVICE uint4 load_128(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

EPIFUSE_DEVICE uint2 load_64(const void* from) {
  uint2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}

// What this launch writes later, so not by the read-only path of the loads above. Zero where it is off.
EPIFUSE_DEVICE uint4 load_old_128(bool on, const void* from) {
  uint4 v;
  asm volatile(
      "{\n.reg .pred p;\n"
      "setp.ne.b32 p, %4, 0;\n"
      "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%5];\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "r"(static_cast<int>(on)), "l"(from)
      : "memory");
  return v;
}

EPIFUSE_DEVICE uint2 load_old_64(bool on, const void* from) {
  uint2 v;
  asm volatile(
      "{\n.reg .pred p;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "mov.u32 %0, 0;\nmov.u32 %1, 0;\n"
      "@p ld.global.L2::256B.v2.u32 {%0, %1}, [%3];\n}"
      : "=&r"(v.x), "=&r"(v.y)
      : "r"(static_cast<int>(on)), "l"(from)
      : "memory");
  return v;
}

EPIFUSE_DEVICE u32 load_old_32(bool on, const void* from) {
  u32 v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.u32 %0, 0;\n@p ld.global.u32 %0, [%2];\n}"
               : "=&r"(v)
               : "r"(static_cast<int>(on)), "l"(from)
               : "memory");
  return v;
}

EPIFUSE_DEVICE u32 load_old_16(bool on, const void* from) {
  u16 v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.u16 %0, 0;\n@p ld.global.u16 %0, [%2];\n}"
               : "=&h"(v)
               : "r"(static_cast<int>(on)), "l"(from)
               : "memory");
  return v;
}

// Adds one and gives what was there before; where it is off, 0.
EPIFUSE_DEVICE u32 atomic_increment(bool on, void* counter) {
  u32 before;
  asm volatile(
      "{\n.reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "mov.u32 %0, 0;\n"
      "@p atom.global.relaxed.gpu.add.u32 %0, [%2], 1;\n}"
      : "=&r"(before)
      : "r"(static_cast<int>(on)), "l"(counter)
      : "memory");
  return before;
}

EPIFUSE_DEVICE uint4 load_shared_128(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

EPIFUSE_DEVICE uint2 load_shared_64(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}

EPIFUSE_DEVICE u32 load_shared_32(u32 from) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}

EPIFUSE_DEVICE u32 load_shared_8(u32 from) {
  u32 v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}

EPIFUSE_DEVICE void store_shared_32(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

EPIFUSE_DEVICE void store_shared_64(u32 to, u32 a, u32 b) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

EPIFUSE_DEVICE void store_shared_8(u32 to, u32 value) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

// base + index * pitch with a 64-bit result from 32-bit factors, in one instruction.
EPIFUSE_DEVICE u8* offset(void* base, u32 index, u32 pitch) {
  u8* at;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(index), "r"(pitch), "l"(base));
  return at;
}

}  // namespace epifuse::ptx
