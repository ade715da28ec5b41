#include "compiler/interpreter/mx_quantiser.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"
#include "base/numbers.h"

namespace epifuse::interpreter {
namespace {

constexpr uint32_t largest_scale = 254;

class MxQuantiser final : public Quantiser {
 public:
  using Quantiser::Quantiser;

  Factors factors(uint32_t scale, GroupMaximum) const override {
    const double inverse = 1 / decode_e8m0(static_cast<uint8_t>(scale));
    return {inverse, inverse};
  }

 protected:
  BlockScale scale_of(double amax, GroupMaximum) const override {
    const uint32_t code = std::isinf(amax) ? largest_scale : amax == 0 ? 0 : finite_scale(amax);
    return {code, factors(code, {}).least};
  }

  // A power of two within the range of double: the product is exact.
  double scaled(double value, double factor) const override { return value * factor; }

 private:
  uint32_t finite_scale(double amax) const {
    return static_cast<uint32_t>(std::clamp(scale_exponent(type_.rule, type_.element, amax) + 127, 0, 254));
  }
};

}  // namespace

int scale_exponent(ir::ScaleRule rule, Storage element, double amax) {
  const FloatFormat& format = float_format(element);
  const double largest = decode(format, format.largest);
  const int largest_exponent = floor_log2(largest);
  const int exponent = floor_log2(amax);
  switch (rule) {
    case ir::ScaleRule::floor: return exponent - largest_exponent;
    case ir::ScaleRule::ceil: return exponent - largest_exponent + (amax > std::ldexp(1.0, exponent));
    case ir::ScaleRule::up: {
      // The smallest k with amax <= largest * 2^k.
      const int k = exponent - largest_exponent;
      return amax <= std::ldexp(largest, k) ? k : k + 1;
    }
    case ir::ScaleRule::even: {
      // The exponent after the magnitude is rounded, half up, to the element's mantissa.
      const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
      return floor_log2(std::floor(amax / step + 0.5) * step) - largest_exponent;
    }
    default: break;
  }
  EPIFUSE_ENSURE(false, "a scale rule without a power of two");
}

std::unique_ptr<Quantiser> make_mx_quantiser(const ir::TensorType& type) {
  switch (type.rule) {
    case ir::ScaleRule::up:
    case ir::ScaleRule::floor:
    case ir::ScaleRule::even:
    case ir::ScaleRule::ceil: return std::make_unique<MxQuantiser>(type);
    default: return nullptr;
  }
}

}  // namespace epifuse::interpreter
