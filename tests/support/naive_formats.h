// The scaled formats of the naive evaluation: the scale of a block, an element under it, and random bits for stochastic
// rounding. Scales are found by search or by single operations in f32 in the order that the format defines; elements
// are numbers on a grid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "compiler/ir/types.h"

namespace epifuse::test {

class NaiveFormat {
 public:
  // `amax` is the maximum that an NVFP4 type names, of the block's tensor or group; nothing: a tensor scale of 1.
  explicit NaiveFormat(const ir::TensorType& type, std::optional<float> amax = std::nullopt);

  // Code of the scale (a byte, or the bits of an f32) of a block whose largest magnitude is this: infinite where the
  // policy counts infinities, NaN of a block that is not finite where the policy propagates.
  uint32_t scale(float largest) const;
  bool is_poisoned(uint32_t scale) const;  // the scale is NaN, and with it all elements

  // What elements are multiplied with (or divided by) to be narrowed: the least and the most that is possible under a
  // stored scale where the largest magnitude is in [low, high].
  struct Factors {
    float least, most;
  };
  Factors factors(uint32_t scale, float low, float high) const;

  // The code of an element. Random bits (0 to 255) make it stochastic.
  uint32_t element(float x, float factor, std::optional<int> random_bits) const;

  // The number that the code of a scale stands for, with what belongs to the tensor.
  long double scale_value(uint32_t scale) const;

 private:
  float fp8_factor(float largest) const;
  uint32_t nvfp4_scale(float largest) const;
  float nvfp4_factor(uint32_t scale) const;

  ir::TensorType type_;
  const ir::FormatInfo& info_;
  float largest_;          // of the elements
  float encode_, decode_;  // nvfp4: of the tensor
};

// A code of a format of 8 or 4 bits for a number that the format has; NaN becomes 0x7F or, without a NaN, the largest.
uint32_t encode_naively(Storage storage, long double value);

// Philox4x32-10.
std::array<uint32_t, 4> philox_naively(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace epifuse::test
