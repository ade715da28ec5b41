#include "compiler/interpreter/fp8_quantiser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/interpreter/f32.h"

namespace epifuse::interpreter {
namespace {

// What a rule makes of a largest magnitude.
struct Fp8Rule {
  ir::ScaleRule rule;
  float least_amax;     // smaller ones count as this
  bool stores_inverse;  // the factor is largest / amax and its inverse is stored; else amax / largest is stored …
  bool divides;         // … and elements are divided by it; else multiplied by its inverse
  bool power_of_two;    // the factor's mantissa is cleared
};

constexpr Fp8Rule rules[] = {
    {ir::ScaleRule::up, 0, true, false, true},
    {ir::ScaleRule::te_f32, 0, true, false, false},
    {ir::ScaleRule::deepgemm, 1e-4f, false, false, false},
    {ir::ScaleRule::torchao, 1e-12f, true, false, false},
    {ir::ScaleRule::vllm, 1e-10f, false, true, false},
};

const Fp8Rule* find_rule(ir::ScaleRule rule) {
  for (const Fp8Rule& row : rules)
    if (row.rule == rule) return &row;
  return nullptr;
}

float clear_mantissa(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xFF800000u); }

class Fp8Quantiser final : public Quantiser {
 public:
  Fp8Quantiser(const ir::TensorType& type, const Fp8Rule& rule)
      : Quantiser(type),
        rule_(rule),
        largest_(static_cast<float>(decode(element_format(), element_format().largest))) {}

  // A stored inverse says its factor to a unit or two in the last place, more where it is subnormal.
  Factors factors(uint32_t scale, GroupMaximum) const override {
    const float stored = std::bit_cast<float>(scale);
    if (!rule_.stores_inverse) {
      const float factor = rule_.divides ? stored : f32::divide(1, stored);
      return {factor, factor};
    }
    const float middle = std::clamp(f32::divide(1, stored), -f32::largest, f32::largest);
    if (middle == 0 || f32::divide(1, middle) != stored || rule_.power_of_two) return {middle, middle};
    Factors range{middle, middle};
    for (float next = middle; f32::divide(1, next) == stored; next = std::nextafterf(next, 0)) range.least = next;
    for (float next = middle; std::isfinite(next) && f32::divide(1, next) == stored;
         next = std::nextafterf(next, std::numeric_limits<float>::infinity()))
      range.most = next;
    return range;
  }

 protected:
  BlockScale scale_of(double amax, GroupMaximum) const override {
    if (std::isinf(amax)) return with_factor(1);
    const float magnitude = std::max(static_cast<float>(amax), rule_.least_amax);
    if (magnitude == 0) return with_factor(1);
    if (!rule_.stores_inverse) {
      const float stored = f32::divide(magnitude, largest_);
      return {std::bit_cast<uint32_t>(stored), rule_.divides ? stored : f32::divide(1, stored)};
    }
    const float factor = std::min(f32::divide(largest_, magnitude), f32::largest);
    return with_factor(rule_.power_of_two ? clear_mantissa(factor) : factor);
  }

  double scaled(double value, double factor) const override {
    const auto x = static_cast<float>(value), f = static_cast<float>(factor);
    return rule_.divides ? f32::divide(x, f) : f32::multiply(x, f);
  }

 private:
  static BlockScale with_factor(float factor) { return {std::bit_cast<uint32_t>(f32::divide(1, factor)), factor}; }

  const Fp8Rule& rule_;
  float largest_;
};

}  // namespace

std::unique_ptr<Quantiser> make_fp8_quantiser(const ir::TensorType& type) {
  const Fp8Rule* rule = find_rule(type.rule);
  return rule ? std::make_unique<Fp8Quantiser>(type, *rule) : nullptr;
}

}  // namespace epifuse::interpreter
