// One element of a 16-point rotation (language.md V8) with the interval of the device's f32 value.
#pragma once

#include <cstdint>

#include "compiler/interpreter/map_ops.h"

namespace epifuse::interpreter {

// y[c] = 1/4 * sum over r of s[r] * x[r] * (-1)^popcount(r & c), where s[r] is -1 if bit r of `signs` is set. What is
// not added is 0.
class Rotation {
 public:
  Rotation(uint32_t signs, int c) : signs_(signs), c_(c) {}

  void add(int r, const Lane& x, int i);
  void store(const Lane& into, int i) const;

 private:
  uint32_t signs_;
  int c_;
  double value_ = 0, low_ = 0, high_ = 0;
  double magnitude_ = 0;  // sum of |x|
  bool jumps_ = false;    // as Lane::jumps, of any term
  bool exact_ = true;     // every term is known exactly …
  int grid_ = 1 << 20;    // … and a multiple of two to this power
};

}  // namespace epifuse::interpreter
