#include "compiler/interpreter/stochastic.h"

#include <algorithm>
#include <cmath>

namespace epifuse::interpreter {
namespace {

constexpr uint64_t multipliers[2] = {0xD2511F53, 0xCD9E8D57};
constexpr uint32_t key_steps[2] = {0x9E3779B9, 0xBB67AE85};
constexpr int rounds = 10;

uint32_t low_half(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high_half(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t first = multipliers[0] * counter[0], second = multipliers[1] * counter[2];
    counter = {high_half(second) ^ counter[1] ^ key[0], low_half(second), high_half(first) ^ counter[3] ^ key[1],
               low_half(first)};
    for (int i = 0; i < 2; ++i) key[i] += key_steps[i];
  }
  return counter;
}

RandomBits::RandomBits(int64_t seed, int64_t offset, int ordinal)
    : key_{low_half(static_cast<uint64_t>(seed)),
           high_half(static_cast<uint64_t>(seed)) ^ high_half(static_cast<uint64_t>(offset))},
      offset_(low_half(static_cast<uint64_t>(offset))),
      ordinal_(static_cast<uint32_t>(ordinal)) {}

uint32_t RandomBits::at(const RandomPlace& place) const {
  // One call serves four rows by four columns: a word for each row, a byte for each column.
  const std::array<uint32_t, 4> words =
      philox({static_cast<uint32_t>(place.column / 4), static_cast<uint32_t>(place.row / 4),
              static_cast<uint32_t>(place.matrix) | ordinal_ << 24, offset_},
             key_);
  return words[place.row % 4] >> (8 * (place.column % 4)) & 0xFF;
}

uint32_t encode_stochastically(const FloatFormat& format, double value, uint32_t random) {
  if (value != value) return format.nan;
  const uint32_t sign = std::signbit(value) ? format.sign : 0;
  const double magnitude = std::min(std::fabs(value), decode(format, format.largest));
  const int smallest = 1 - format.bias;  // exponent of the smallest normal number
  const int exponent = magnitude == 0 ? smallest : std::max(floor_log2(magnitude), smallest);
  // Both terms are exact: an f32 has 24 bits, and the random part is a multiple of 2^-8 of a step. Of smaller numbers
  // than double can hold beside it nothing is left that could carry.
  const double steps = std::ldexp(magnitude, format.mantissa_bits - exponent) + random / 256.0;
  const uint32_t code =
      (static_cast<uint32_t>(exponent - smallest) << format.mantissa_bits) + static_cast<uint32_t>(std::floor(steps));
  return sign | std::min(code, format.largest);
}

}  // namespace epifuse::interpreter
