// Scaled formats: blocks of values that share a scale.
//
// A quantiser is what one tensor type does to one block. Stores and the judge are written against this interface, so a
// further format is one class and one row of the table in quantiser.cpp. Where scales lie, and what a block's group has
// to do with them, is not known here (see scaled_tensor.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/numbers.h"
#include "base/result.h"
#include "compiler/ir/types.h"

namespace epifuse::interpreter {

// What the `amax` input holds for a block's tensor or group (nvfp4); nothing where the type names no such input.
using GroupMaximum = std::optional<float>;

// A block's scale as it is stored, and what its elements are multiplied by (or divided by: vllm).
struct BlockScale {
  uint32_t code = 0;  // a byte, or the bits of an f32
  double factor = 1;
};

class Quantiser {
 public:
  explicit Quantiser(const ir::TensorType& type);
  virtual ~Quantiser() = default;

  const ir::TensorType& type() const { return type_; }
  const ir::FormatInfo& info() const { return info_; }
  const FloatFormat& element_format() const { return element_format_; }

  // The largest magnitude as the policy for non-finite values sees it; 0 of an empty block.
  double amax(const double* values, int64_t count) const;

  // The scale of a block with this largest magnitude, which is NaN or infinite if an element is and the policy counts
  // it. But for 0 and infinity, where some formats store 1, codes of scales are ordered as magnitudes are, NaN last.
  BlockScale block_scale(double amax, GroupMaximum maximum = {}) const;
  uint32_t scale(double amax, GroupMaximum maximum = {}) const { return block_scale(amax, maximum).code; }

  // The factors that can stand behind a stored scale: it says them but for a few units in the last place.
  struct Factors {
    double least, most;
  };
  virtual Factors factors(uint32_t scale, GroupMaximum maximum = {}) const = 0;

  // The code of an element: monotone in the element. `random` (0 to 255) makes the rounding stochastic.
  uint32_t element(double value, double factor, std::optional<uint32_t> random = {}) const;
  uint32_t element(double value, const BlockScale& scale) const { return element(value, scale.factor); }
  uint32_t element(double value, uint32_t scale) const { return element(value, factors(scale).least); }

  // The number that a scale's code stands for, by itself and together with the tensor's or group's scale.
  double scale_value(uint32_t code) const;
  double whole_scale(uint32_t code, GroupMaximum maximum = {}) const { return scale_value(code) * of_group(maximum); }
  // What an element's code stands for.
  double value(uint32_t code, uint32_t scale, GroupMaximum maximum = {}) const {
    return decode(element_format_, code) * whole_scale(scale, maximum);
  }

 protected:
  // Of a magnitude that is a number: infinite only where the policy `te` meets an infinity.
  virtual BlockScale scale_of(double amax, GroupMaximum maximum) const = 0;
  virtual double scaled(double value, double factor) const = 0;
  virtual double of_group(GroupMaximum) const { return 1; }

  ir::TensorType type_;
  const ir::FormatInfo& info_;
  const FloatFormat& element_format_;
};

// Refuses, by name, a rule that is none of the type's.
Result<std::unique_ptr<Quantiser>> make_quantiser(const ir::TensorType& type);

}  // namespace epifuse::interpreter
