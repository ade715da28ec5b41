#include "tests/support/naive_arithmetic.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace epifuse::test {
namespace {

using Long = long double;
using ir::Op;

constexpr Long infinity = std::numeric_limits<Long>::infinity();
constexpr Long nan = std::numeric_limits<Long>::quiet_NaN();
// One operation in double: a rounding, or a function of the C library.
constexpr Long unit = 0x1p-51L;
// Two numbers that lie so many errors apart are told apart by any computation.
constexpr Long certain = 8;

// Beyond the range of f32 a value is infinite.
Estimate made(Long value, Long error) {
  if (std::fabs(value) >= 0x1.ffffffp127L && std::isfinite(value)) return {std::copysign(infinity, value), error};
  return {value, std::isfinite(value) ? error + std::fabs(value) * unit : error};
}

// A function with a slope.
Estimate sloped(Long value, Long slope, const Estimate& argument) {
  return made(value, argument.error == 0 ? 0 : std::fabs(slope) * argument.error);
}

bool close(const Estimate& a, const Estimate& b) {
  return a.error + b.error > 0 && std::fabs(a.value - b.value) <= certain * (a.error + b.error);
}

// 0 or 1, and which of them if that is certain.
Estimate truth(bool holds, const Estimate& a, const Estimate& b) {
  return {holds ? 1.0L : 0.0L, close(a, b) ? 1.0L : 0};
}

Estimate choose(const Estimate& condition, const Estimate& yes, const Estimate& no) {
  const Estimate& chosen = condition.value != 0 ? yes : no;
  if (condition.error == 0) return chosen;
  return {chosen.value, std::max(yes.error, no.error) + std::fabs(yes.value - no.value)};
}

Estimate smaller(const Estimate& a, const Estimate& b) {
  if (std::isnan(a.value) || std::isnan(b.value)) return {nan, 0};
  return {std::fmin(a.value, b.value), close(a, b) ? std::max(a.error, b.error) : (a.value < b.value ? a : b).error};
}
Estimate larger(const Estimate& a, const Estimate& b) {
  const Estimate x = smaller({-a.value, a.error}, {-b.value, b.error});
  return {-x.value, x.error};
}

Estimate rounded(Storage to, const Estimate& x) {
  const Long value = round_naively(to, x.value);
  if (x.error == 0) return {value, 0};
  const Long low = round_naively(to, x.value - certain * x.error),
             high = round_naively(to, x.value + certain * x.error);
  return {value, std::max(high - value, value - low)};
}

Long sigmoid(Long x) { return 1 / (1 + std::exp(-x)); }
const Long two_over_root_pi = 2 / std::sqrt(std::acos(-1.0L));

struct Format {
  int mantissa, least_exponent;  // of the smallest normal number
  Long largest;
  bool saturates;
};
Format format_of(Storage storage) {
  switch (storage) {
    case Storage::f32: return {23, -126, 0x1.fffffep127L, false};
    case Storage::bf16: return {7, -126, 0x1.fep127L, false};
    case Storage::f16: return {10, -14, 65504, false};
    case Storage::e4m3: return {3, -6, 448, true};
    case Storage::e5m2: return {2, -14, 57344, true};
    case Storage::e2m1: return {1, 0, 6, true};
    default: throw std::logic_error("a format that the naive evaluation does not have");
  }
}

template <class T>
T at(const std::vector<uint8_t>& bytes, int64_t position) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(position) * sizeof(T), sizeof(T));
  return value;
}

// Sign, exponent and mantissa; `top`: whether the largest exponent is for infinities and NaN.
Long decode_float(uint32_t code, int exponent_bits, int mantissa_bits, bool top) {
  const uint32_t fraction = code & ((1u << mantissa_bits) - 1);
  const int last = (1 << exponent_bits) - 1, exponent = static_cast<int>(code >> mantissa_bits) & last;
  const Long sign = (code >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  if (top && exponent == last) return fraction ? nan : sign * infinity;
  if (!top && exponent == last && fraction == (1u << mantissa_bits) - 1) return nan;
  const int bias = last / 2;
  const Long significand = std::ldexp(Long{1} * fraction, -mantissa_bits) + (exponent ? 1 : 0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias);
}

}  // namespace

Estimate exactly(Long value) { return {value, 0}; }

Estimate operator+(const Estimate& a, const Estimate& b) { return made(a.value + b.value, a.error + b.error); }
Estimate operator-(const Estimate& a, const Estimate& b) { return made(a.value - b.value, a.error + b.error); }
Estimate operator*(const Estimate& a, const Estimate& b) {
  const Long from_a = a.error == 0 ? 0 : a.error * std::fabs(b.value);
  const Long from_b = b.error == 0 ? 0 : b.error * std::fabs(a.value);
  return made(a.value * b.value, from_a + from_b + (a.error == 0 || b.error == 0 ? 0 : a.error * b.error));
}
Estimate operator/(const Estimate& a, const Estimate& b) {
  const Long value = a.value / b.value;
  if (b.error == 0) return made(value, a.error == 0 ? 0 : a.error / std::fabs(b.value));
  if (std::fabs(b.value) <= 2 * b.error) return {value, infinity};
  return made(value, 2 * (a.error + std::fabs(value) * b.error) / std::fabs(b.value));
}

Estimate apply_naively(const ir::Node& node, const std::vector<Estimate>& args) {
  const Estimate a = args.at(0), b = args.size() > 1 ? args[1] : Estimate{}, c = args.size() > 2 ? args[2] : Estimate{};
  const Long x = a.value;
  switch (node.op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::neg: return {-x, a.error};
    case Op::less: return truth(x < b.value, a, b);
    case Op::less_equal: return truth(x <= b.value, a, b);
    case Op::equal: return truth(x == b.value, a, b);
    case Op::not_equal: return truth(x != b.value, a, b);
    case Op::select: return choose(a, b, c);
    case Op::min: return smaller(a, b);
    case Op::max: return larger(a, b);
    case Op::clamp: return smaller(larger(a, b), c);
    case Op::abs: return {std::fabs(x), a.error};
    case Op::exp: return sloped(std::exp(x), std::exp(x), a);
    case Op::log: return sloped(std::log(x), 1 / x, a);
    case Op::tanh: return sloped(std::tanh(x), 1, a);
    case Op::sigmoid: return sloped(sigmoid(x), sigmoid(x), a);
    case Op::erf: return sloped(std::erf(x), two_over_root_pi, a);
    case Op::erfc: return sloped(std::erfc(x), two_over_root_pi * std::exp(-x * x), a);
    case Op::sqrt: return sloped(std::sqrt(x), 0.5L / std::sqrt(x), a);
    case Op::rsqrt: return sloped(1 / std::sqrt(x), 0.5L / (x * std::sqrt(x)), a);
    case Op::cast: return rounded(node.to, a);
    default: throw std::logic_error("no pointwise operation");
  }
}

std::vector<Estimate> partials_naively(const ir::Node& node, const std::vector<Estimate>& args) {
  const Estimate a = args.at(0), b = args.size() > 1 ? args[1] : Estimate{}, c = args.size() > 2 ? args[2] : Estimate{};
  const Estimate one = exactly(1), none = exactly(0), half = exactly(0.5L);
  const auto call = [&](Op op) {
    ir::Node function;
    function.op = op;
    return apply_naively(function, {a});
  };
  // 1 where `holds`, for a condition between two numbers.
  const auto where = [&](bool holds, const Estimate& left, const Estimate& right) { return truth(holds, left, right); };
  switch (node.op) {
    case Op::add: return {one, one};
    case Op::sub: return {one, exactly(-1)};
    case Op::mul: return {b, a};
    case Op::div: return {one / b, none - a / (b * b)};
    case Op::neg: return {exactly(-1)};
    case Op::less:
    case Op::less_equal:
    case Op::equal:
    case Op::not_equal: return {none, none};
    case Op::select: return {none, choose(a, one, none), choose(a, none, one)};
    case Op::min: {
      const Estimate first = where(a.value <= b.value, a, b);
      return {first, one - first};
    }
    case Op::max: {
      const Estimate first = where(a.value >= b.value, a, b);
      return {first, one - first};
    }
    case Op::clamp: {
      const Estimate top = larger(a, b);
      const Estimate inside = where(top.value <= c.value, top, c), above = where(a.value >= b.value, a, b);
      return {inside * above, inside * (one - above), one - inside};
    }
    case Op::abs:
      return {choose(where(a.value > 0, a, none), one, choose(where(a.value < 0, a, none), exactly(-1), none))};
    case Op::exp: return {call(Op::exp)};
    case Op::log: return {one / a};
    case Op::tanh: return {one - call(Op::tanh) * call(Op::tanh)};
    case Op::sigmoid: return {call(Op::sigmoid) * (one - call(Op::sigmoid))};
    case Op::erf:
    case Op::erfc: {
      const Estimate square = a * a;
      const Estimate bell = sloped(std::exp(-square.value), std::exp(-square.value), square);
      // A number of a graph is an f32, and this one is none.
      const Estimate scale = {node.op == Op::erf ? two_over_root_pi : -two_over_root_pi, two_over_root_pi * 0x1p-25L};
      return {scale * bell};
    }
    case Op::sqrt: return {half / call(Op::sqrt)};
    case Op::rsqrt: return {exactly(-0.5L) * call(Op::rsqrt) / a};
    case Op::cast: return {one};
    default: throw std::logic_error("no pointwise operation");
  }
}

Long round_naively(Storage storage, Long value) {
  const Format format = format_of(storage);
  if (std::isnan(value)) return value;
  if (std::isinf(value)) return format.saturates ? std::copysign(format.largest, value) : value;
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const Long step = std::ldexp(1.0L, exponent - format.mantissa);
  const Long result = std::rint(value / step) * step;  // ties to even: the default of the machine
  if (std::fabs(result) <= format.largest) return result;
  return std::copysign(format.saturates ? format.largest : infinity, value);
}

Long largest_naively(Storage storage) { return format_of(storage).largest; }
int mantissa_naively(Storage storage) { return format_of(storage).mantissa; }
int least_exponent_naively(Storage storage) { return format_of(storage).least_exponent; }

uint32_t code_naively(Storage storage, const std::vector<uint8_t>& bytes, int64_t position) {
  switch (storage_bits(storage)) {
    case 4: return bytes.at(static_cast<size_t>(position / 2)) >> (position % 2 * 4) & 0xF;
    case 8: return bytes.at(static_cast<size_t>(position));
    case 16: return at<uint16_t>(bytes, position);
    default: return at<uint32_t>(bytes, position);
  }
}

Long decode_naively(Storage storage, const std::vector<uint8_t>& bytes, int64_t position) {
  if (storage == Storage::i64) return static_cast<Long>(at<int64_t>(bytes, position));
  return decode_naively(storage, code_naively(storage, bytes, position));
}

Long decode_naively(Storage storage, uint32_t code) {
  switch (storage) {
    case Storage::f32: return decode_float(code, 8, 23, true);
    case Storage::bf16: return decode_float(code, 8, 7, true);
    case Storage::f16: return decode_float(code, 5, 10, true);
    case Storage::e4m3: return decode_float(code, 4, 3, false);
    case Storage::e5m2: return decode_float(code, 5, 2, true);
    case Storage::e2m1: {
      constexpr Long magnitudes[8] = {0, 0.5L, 1, 1.5L, 2, 3, 4, 6};
      return code & 8 ? -magnitudes[code & 7] : magnitudes[code];
    }
    case Storage::i32: return static_cast<int32_t>(code);
    case Storage::e8m0: return code == 255 ? nan : std::ldexp(1.0L, static_cast<int>(code) - 127);
    default: throw std::logic_error("a format that the naive evaluation does not have");
  }
}

}  // namespace epifuse::test
