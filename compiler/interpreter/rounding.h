// What a store does to a value, as the judge asks it: which code, and between which codes for all values of an
// interval.
#pragma once

#include <optional>

#include "base/numbers.h"
#include "compiler/interpreter/quantiser.h"

namespace epifuse::interpreter {

// Into a plain type.
class PlainRounding {
 public:
  explicit PlainRounding(Storage storage) : format_(float_format(storage)) {}

  uint32_t code(double x) const { return encode(format_, x); }
  uint32_t lowest(double x) const { return code(x); }
  uint32_t highest(double x) const { return code(x); }
  double value(uint32_t code) const { return decode(format_, code); }
  double grid(uint32_t code) const { return value(code); }
  bool keeps_nan() const { return true; }
  const FloatFormat& format() const { return format_; }

 private:
  const FloatFormat& format_;
};

// Into a block under the scale that is stored.
class BlockRounding {
 public:
  // `expected` is the reference's scale. Where it is certain, its factor is the only one that can stand behind it.
  BlockRounding(const Quantiser& quantiser, uint32_t scale, GroupMaximum maximum, const BlockScale& expected,
                bool is_certain)
      : quantiser_(quantiser),
        factors_(quantiser.factors(scale, maximum)),
        scale_(quantiser.whole_scale(scale, maximum)) {
    factor_ = scale == expected.code ? expected.factor : factors_.least;
    if (scale == expected.code && is_certain) factors_ = {factor_, factor_};
  }

  // The random bits of the element that is asked for from now on.
  void set_random(std::optional<uint32_t> random) { random_ = random; }

  uint32_t code(double x) const { return quantiser_.element(x, factor_, random_); }
  uint32_t lowest(double x) const { return end(x, false); }
  uint32_t highest(double x) const { return end(x, true); }
  double value(uint32_t code) const { return grid(code) * scale_; }
  // The order of codes: under a scale of zero all values are the same.
  double grid(uint32_t code) const { return decode(format(), code); }
  // Whether NaN stays NaN: a type without a NaN has it under a scale that is NaN alone.
  bool keeps_nan() const { return format().nan > format().largest || is_nan_scale(); }
  bool is_nan_scale() const { return scale_ != scale_; }
  const FloatFormat& format() const { return quantiser_.element_format(); }

 private:
  uint32_t end(double x, bool highest) const {
    const uint32_t a = quantiser_.element(x, factors_.least, random_);
    if (factors_.least == factors_.most) return a;
    const uint32_t b = quantiser_.element(x, factors_.most, random_);
    return (grid(a) < grid(b)) == highest ? b : a;
  }

  const Quantiser& quantiser_;
  Quantiser::Factors factors_;
  double factor_ = 1, scale_;
  std::optional<uint32_t> random_;
};

// The scales that a block may have whose largest magnitude is at least `least` and at most `most`.
class ScaleInterval {
 public:
  ScaleInterval(const Quantiser& quantiser, GroupMaximum maximum, double least, double most);
  explicit ScaleInterval(uint32_t certain) : lowest_(certain), highest_(certain) {}

  bool holds(uint32_t code) const {
    return (lowest_ <= code && code <= highest_) || code == of_nothing_ || code == of_infinity_;
  }
  uint32_t lowest() const { return lowest_; }
  uint32_t highest() const { return highest_; }

 private:
  uint32_t lowest_, highest_;
  // Some formats store 1 for a block of zeros, and for one with an infinity.
  std::optional<uint32_t> of_nothing_, of_infinity_;
};

}  // namespace epifuse::interpreter
