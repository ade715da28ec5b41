// When a sum is exact on any machine: its terms are whole steps of a common grid, and fewer than the format can count.
#pragma once

#include <bit>
#include <cstdint>

namespace epifuse::interpreter {

// The exponent of the lowest set bit of a finite nonzero double.
inline int lowest_bit(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52) & 0x7FF;
  if (fraction == 0) return field - 1023;
  return (field == 0 ? -1074 : field - 1075) + std::countr_zero(fraction);
}

}  // namespace epifuse::interpreter
