// Stochastic rounding: an element's random bits are a function of the seed and of its place alone, so that they do not
// depend on tiles, schedules or packing.
#pragma once

#include <array>
#include <cstdint>

#include "base/numbers.h"

namespace epifuse::interpreter {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Where an element is: indices along the last two stored axes, each from the group's start where the axis is grouped
// (row 0 where there is one axis), and the group's number, or without a group the flattened index of the leading axes.
struct RandomPlace {
  int64_t row = 0, column = 0, matrix = 0;
};

// The random bits of one output.
class RandomBits {
 public:
  // `seed` and `offset` are the two numbers of the seed's input; `ordinal` says which of the spec's outs it is.
  RandomBits(int64_t seed, int64_t offset, int ordinal);

  // 0 to 255.
  uint32_t at(const RandomPlace& place) const;

 private:
  std::array<uint32_t, 2> key_;
  uint32_t offset_, ordinal_;
};

// |value| + random / 256 of the step between the format's numbers there, truncated to the next of them and capped at
// the largest. Below the smallest normal number the step stays the same. NaN becomes the format's NaN.
uint32_t encode_stochastically(const FloatFormat& format, double value, uint32_t random);

}  // namespace epifuse::interpreter
