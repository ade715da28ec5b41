#include "compiler/interpreter/nvfp4_quantiser.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/interpreter/f32.h"

namespace epifuse::interpreter {
namespace {

constexpr float codes_largest = 6, whole_largest = 6 * 448;
const float sixth = std::bit_cast<float>(0x3E2AAAABu);

float decode_scale(uint32_t code) { return static_cast<float>(decode(Storage::e4m3, code)); }

class Nvfp4Quantiser : public Quantiser {
 public:
  using Quantiser::Quantiser;

  Factors factors(uint32_t scale, GroupMaximum maximum) const override {
    const double factor = inverse(scale, maximum);
    return {factor, factor};
  }

 protected:
  BlockScale scale_of(double amax, GroupMaximum maximum) const override {
    const uint32_t code = encode(Storage::e4m3, wanted_scale(static_cast<float>(amax), maximum));
    return {code, inverse(code, maximum)};
  }
  double scaled(double value, double factor) const override {
    return f32::multiply(static_cast<float>(value), static_cast<float>(factor));
  }
  // A tensor of zeros is not scaled.
  double of_group(GroupMaximum maximum) const override {
    return maximum && *maximum != 0 ? double{*maximum} / whole_largest : 1;
  }

  virtual float wanted_scale(float amax, GroupMaximum maximum) const = 0;
  virtual float inverse(uint32_t scale, GroupMaximum maximum) const = 0;
};

class TransformerEngineOrder final : public Nvfp4Quantiser {
 public:
  using Nvfp4Quantiser::Nvfp4Quantiser;

 protected:
  float wanted_scale(float amax, GroupMaximum maximum) const override {
    const float by_sixth = f32::multiply(encoding(maximum), sixth);
    return std::fmin(f32::multiply(amax, by_sixth), f32::largest);
  }
  float inverse(uint32_t scale, GroupMaximum maximum) const override {
    const float decoding = f32::divide(1, encoding(maximum));
    const float quotient = f32::divide(1, f32::multiply(decode_scale(scale), decoding));
    return quotient != quotient ? quotient : std::fmin(quotient, f32::largest);
  }

 private:
  static float encoding(GroupMaximum maximum) {
    if (!maximum || *maximum == 0) return 1;
    const float encode = std::fmin(f32::divide(whole_largest, *maximum), f32::largest);
    return encode == 0 ? 1 : encode;
  }
};

class TorchaoOrder final : public Nvfp4Quantiser {
 public:
  using Nvfp4Quantiser::Nvfp4Quantiser;

 protected:
  float wanted_scale(float amax, GroupMaximum maximum) const override {
    const float wanted = f32::divide(f32::divide(amax, codes_largest), of_tensor(maximum));
    return std::clamp(wanted, 0x1p-6f, 448.0f);
  }
  // The clamp of elements to the largest code is what the conversion does anyway.
  float inverse(uint32_t scale, GroupMaximum maximum) const override {
    return f32::divide(f32::divide(1, of_tensor(maximum)), decode_scale(scale));
  }

 private:
  static float of_tensor(GroupMaximum maximum) {
    const float scale = maximum ? f32::divide(*maximum, whole_largest) : 1;
    return scale == 0 ? 1 : scale;
  }
};

}  // namespace

std::unique_ptr<Quantiser> make_nvfp4_quantiser(const ir::TensorType& type) {
  if (type.rule == ir::ScaleRule::up) return std::make_unique<TransformerEngineOrder>(type);
  if (type.rule == ir::ScaleRule::torchao) return std::make_unique<TorchaoOrder>(type);
  return nullptr;
}

}  // namespace epifuse::interpreter
