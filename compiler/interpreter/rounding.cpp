#include "compiler/interpreter/rounding.h"

#include <algorithm>
#include <cmath>

#include "compiler/interpreter/f32.h"

namespace epifuse::interpreter {
namespace {

constexpr double smallest = 0x1p-149;

}  // namespace

ScaleInterval::ScaleInterval(const Quantiser& quantiser, GroupMaximum maximum, double least, double most) {
  const bool may_be_zero = static_cast<float>(least) == 0, may_be_infinite = std::isinf(static_cast<float>(most));
  if (may_be_zero) of_nothing_ = quantiser.scale(0, maximum);
  if (may_be_infinite) of_infinity_ = quantiser.scale(most, maximum);
  lowest_ = quantiser.scale(std::max(least, smallest), maximum);
  highest_ = quantiser.scale(std::min<double>(most, f32::largest), maximum);
  // Certainly nothing but zeros.
  if (static_cast<float>(most) == 0) lowest_ = highest_ = *of_nothing_;
}

}  // namespace epifuse::interpreter
