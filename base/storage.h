// The element types of buffers, as they lie in memory. Language types (compiler/ir/types.h) are built from these: a
// scaled tensor `y` has a buffer `y` of codes and a buffer `y.scale`, each of one element type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace epifuse {

enum class Storage {
  f32,
  bf16,
  f16,
  e4m3,
  e5m2,
  e8m0,  // power-of-two scale: 2^(byte-127), 255 is NaN
  e2m1,  // two per byte, the even element in the low nibble
  i32,
  i64,
};

std::string_view storage_name(Storage storage);
std::optional<Storage> parse_storage(std::string_view name);

// Bits of one element (4 for e2m1).
int storage_bits(Storage storage);

// Bytes of `count` elements that lie one behind the other.
int64_t storage_bytes(Storage storage, int64_t count);

// Rows of 4-bit elements are whole bytes. What is wrong with a buffer of that name whose last extent is `size`, written
// as `extent` ("S * 3"), in words for its owner; empty: nothing.
std::string odd_row_fault(std::string_view name, Storage storage, std::string_view extent, int64_t size);

}  // namespace epifuse
