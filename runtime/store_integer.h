// Integers of 4 or 8 bytes in raw memory, as device structs and buffers hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace epifuse::runtime {

inline void store_integer(std::byte* at, size_t size, int64_t value) {
  const auto narrow = static_cast<int32_t>(value);
  std::memcpy(at, size == sizeof narrow ? static_cast<const void*>(&narrow) : &value, size);
}

inline int64_t load_integer(const std::byte* at, size_t size) {
  int64_t wide = 0;
  int32_t narrow = 0;
  std::memcpy(size == sizeof narrow ? static_cast<void*>(&narrow) : &wide, at, size);
  return size == sizeof narrow ? narrow : wide;
}

}  // namespace epifuse::runtime
