// Stand-in: global memory is the host's, shared memory an array of it. What the device faults on ends the test.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

// Of every block of threads, one after the other.
inline u8 host_shared[64 * 1024];

inline u8* shared_bytes(u32 address, u32 bytes) {
  if (address % bytes != 0 || address + bytes > sizeof host_shared) std::abort();
  return host_shared + address;
}

template <class Word>
void store_words(bool on, void* to, const Word* words, int count) {
  if (!on) return;
  if (reinterpret_cast<uintptr_t>(to) % (sizeof(Word) * static_cast<size_t>(count)) != 0) std::abort();
  std::memcpy(to, words, sizeof(Word) * static_cast<size_t>(count));
}

inline void store_128(bool on, void* to, u32 a, u32 b, u32 c, u32 d) {
  const u32 words[] = {a, b, c, d};
  store_words(on, to, words, 4);
}
inline void store_64(bool on, void* to, u32 a, u32 b) {
  const u32 words[] = {a, b};
  store_words(on, to, words, 2);
}
inline void store_32(bool on, void* to, u32 a) { store_words(on, to, &a, 1); }
inline void store_16(bool on, void* to, u32 a) {
  const u16 half = static_cast<u16>(a);
  store_words(on, to, &half, 1);
}
inline void store_8(bool on, void* to, u32 a) {
  const u8 byte = static_cast<u8>(a);
  store_words(on, to, &byte, 1);
}

inline u32 load_shared_32(u32 from) {
  u32 value;
  std::memcpy(&value, shared_bytes(from, 4), 4);
  return value;
}
inline u32 load_shared_8(u32 from) { return *shared_bytes(from, 1); }
inline void store_shared_32(u32 to, u32 value) { std::memcpy(shared_bytes(to, 4), &value, 4); }
inline void store_shared_64(u32 to, u32 a, u32 b) {
  const u32 words[] = {a, b};
  std::memcpy(shared_bytes(to, 8), words, 8);
}
inline uint2 load_shared_64(u32 from) {
  uint2 value;
  std::memcpy(&value, shared_bytes(from, 8), 8);
  return value;
}
// What a counter answers: a test may stand for the other blocks that ask it.
inline std::function<u32(u32&)> host_increment = [](u32& counter) { return counter++; };
inline u32 atomic_increment(bool on, void* counter) { return on ? host_increment(*static_cast<u32*>(counter)) : 0; }
inline void store_shared_8(u32 to, u32 value) { *shared_bytes(to, 1) = static_cast<u8>(value); }

// Both factors are unsigned: what lies in front of the base is out of reach.
inline u8* offset(void* base, u32 index, u32 pitch) { return static_cast<u8*>(base) + u64{index} * pitch; }

}  // namespace epifuse::ptx
