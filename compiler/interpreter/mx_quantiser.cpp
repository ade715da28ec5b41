#include "compiler/interpreter/mx_quantiser.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"
#include "base/numbers.h"

namespace epifuse::interpreter {
namespace {

constexpr uint32_t nan_scale = 255;
constexpr uint32_t largest_scale = 254;

class MxQuantiser final : public Quantiser {
 public:
  explicit MxQuantiser(const ir::TensorType& type) : Quantiser(type), format_(float_format(type.element)) {}

  uint32_t scale(double amax) const override {
    if (amax != amax) return nan_scale;
    if (std::isinf(amax)) return type_.nonfinite == ir::NonFinite::propagate ? nan_scale : largest_scale;
    if (amax == 0) return 0;
    return static_cast<uint32_t>(std::clamp(scale_exponent(type_.rule, type_.element, amax) + 127, 0, 254));
  }

  uint32_t element(double value, uint32_t scale) const override {
    if (scale == nan_scale) return format_.nan;
    // A power of two within the range of double: the product is exact.
    return encode(format_, value * inverse(scale));
  }

  double value(uint32_t code, uint32_t scale) const override {
    return decode(format_, code) * decode_e8m0(static_cast<uint8_t>(scale));
  }

 private:
  static double inverse(uint32_t scale) { return 1 / decode_e8m0(static_cast<uint8_t>(scale)); }

  const FloatFormat& format_;
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

std::unique_ptr<Quantiser> make_mx_quantiser(const ir::TensorType& type) { return std::make_unique<MxQuantiser>(type); }

}  // namespace epifuse::interpreter
