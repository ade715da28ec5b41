// Stand-in: accesses of host memory, and of the shared memory of tests/reductions/host/cta.h.
#pragma once

#include <cstring>

#include "ptx/types.cuh"

namespace epifuse::ptx {

template <class T>
void store_if(bool on, void* to, const T& value) {
  if (on) std::memcpy(to, &value, sizeof value);
}
template <class T>
T load_if(bool on, const void* from) {
  T value{};
  if (on) std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store_128(bool on, void* to, u32 a, u32 b, u32 c, u32 d) { store_if(on, to, uint4{a, b, c, d}); }
inline void store_64(bool on, void* to, u32 a, u32 b) { store_if(on, to, uint2{a, b}); }
inline void store_32(bool on, void* to, u32 a) { store_if(on, to, a); }
inline void store_16(bool on, void* to, u32 a) { store_if(on, to, static_cast<u16>(a)); }
inline void store_8(bool on, void* to, u32 a) { store_if(on, to, static_cast<u8>(a)); }

inline uint4 load_128(const void* from) { return load_if<uint4>(true, from); }
inline uint4 load_old_128(bool on, const void* from) { return load_if<uint4>(on, from); }
inline uint2 load_old_64(bool on, const void* from) { return load_if<uint2>(on, from); }
inline u32 load_old_32(bool on, const void* from) { return load_if<u32>(on, from); }
inline u32 load_old_16(bool on, const void* from) { return load_if<u16>(on, from); }

inline void store_shared_32(u32 to, u32 value) { store_if(true, &host::Cta::current().shared.at(to), value); }
inline u32 load_shared_32(u32 from) { return load_if<u32>(true, &host::Cta::current().shared.at(from)); }

inline u8* offset(void* base, u32 index, u32 pitch) { return static_cast<u8*>(base) + u64{index} * pitch; }

}  // namespace epifuse::ptx
