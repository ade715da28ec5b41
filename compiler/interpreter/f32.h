// Single operations of f32, each rounded once. A product or quotient of two f32 in double, rounded to f32, is the
// operation's own rounding (53 >= 2 * 24 + 2 bits) but for subnormal results; those are left to the hardware, whose f32
// is IEEE's. No operation is fused with another here, whatever the compiler's flags are.
#pragma once

#include <limits>

namespace epifuse::interpreter::f32 {

inline constexpr float largest = std::numeric_limits<float>::max();

inline float multiply(float a, float b) {
  const volatile float product = a * b;
  return product;
}

inline float divide(float a, float b) {
  const volatile float quotient = a / b;
  return quotient;
}

}  // namespace epifuse::interpreter::f32
