// Scaled formats: blocks of values that share a scale.
//
// A quantiser is what one tensor type does to one block. Stores and the judge are written against this interface, so a
// further format is one class and one row of the table in quantiser.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "compiler/ir/types.h"

namespace epifuse::interpreter {

// Values of a block and the interval that the device's f32 value may lie in (see evaluator.h).
struct BlockValues {
  const double* value;
  const double* low;
  const double* high;
  int64_t count;
};

class Quantiser {
 public:
  explicit Quantiser(const ir::TensorType& type) : type_(type) {}
  virtual ~Quantiser() = default;

  const ir::TensorType& type() const { return type_; }
  const ir::FormatInfo& info() const { return ir::format_info(type_.format); }

  // The scale's code for the largest magnitude of a block, which is NaN or infinite if an element is and the type's
  // policy counts it. Codes of scales are ordered as their values are, NaN last.
  virtual uint32_t scale(double amax) const = 0;
  // The code of an element under a stored scale: monotone in the element.
  virtual uint32_t element(double value, uint32_t scale) const = 0;
  // What a code stands for.
  virtual double value(uint32_t code, uint32_t scale) const = 0;

  // The largest magnitude as the policy for non-finite values sees it; 0 of an empty block.
  double amax(const double* values, int64_t count) const;

 protected:
  ir::TensorType type_;
};

// Refuses, by name, the types that the interpreter does not know yet.
Result<std::unique_ptr<Quantiser>> make_quantiser(const ir::TensorType& type);

// Extents of the buffer `y.scale` for a buffer `y` with these extents (layout `rows`).
std::vector<int64_t> scale_extents(const ir::TensorType& type, std::vector<int64_t> extents);

// The axis of the stored shape along which blocks run.
int along_axis(const ir::TensorType& type, int rank);

}  // namespace epifuse::interpreter
