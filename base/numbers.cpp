#include "base/numbers.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/ensure.h"

namespace epifuse {
namespace {

constexpr FloatFormat f32 = {23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x80000000};
constexpr FloatFormat bf16 = {7, 127, 0x7F7F, 0x7F80, 0x7FC0, 0x8000};
constexpr FloatFormat f16 = {10, 15, 0x7BFF, 0x7C00, 0x7E00, 0x8000};
constexpr FloatFormat e4m3 = {3, 7, 0x7E, 0x7E, 0x7F, 0x80};
constexpr FloatFormat e5m2 = {2, 15, 0x7B, 0x7B, 0x7F, 0x80};
constexpr FloatFormat e2m1 = {1, 1, 0x7, 0x7, 0x7, 0x8};

// A positive finite double as integer * 2^exponent, the integer below 2^53.
struct Exact {
  uint64_t integer;
  int exponent;
};

Exact take_apart(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52) & 0x7FF;
  if (field == 0) return {fraction, -1074};
  return {fraction | (uint64_t{1} << 52), field - 1075};
}

// integer / 2^shift to the nearest integer, ties to even.
uint64_t divide_rounding(uint64_t integer, int shift) {
  if (shift <= 0) return integer << -shift;
  if (shift > 54) return 0;  // the integer is below 2^53, so less than half of 2^shift
  const uint64_t quotient = integer >> shift;
  const uint64_t rest = integer & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1)));
}

// 2^exponent, exactly, for every exponent that a format of ours has (std::ldexp is slow, and this is in the inner
// loop).
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

}  // namespace

bool is_float(Storage storage) { return storage <= Storage::e5m2 || storage == Storage::e2m1; }

const FloatFormat& float_format(Storage storage) {
  switch (storage) {
    case Storage::f32: return f32;
    case Storage::bf16: return bf16;
    case Storage::f16: return f16;
    case Storage::e4m3: return e4m3;
    case Storage::e5m2: return e5m2;
    case Storage::e2m1: return e2m1;
    default: break;
  }
  EPIFUSE_ENSURE(false, "a storage that is no floating format");
}

int floor_log2(double value) {
  const Exact exact = take_apart(value);
  return exact.exponent + 63 - std::countl_zero(exact.integer);
}

uint32_t encode(const FloatFormat& format, double value) {
  if (value != value) return format.nan;
  const uint32_t sign = std::signbit(value) ? format.sign : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.infinity;
  const Exact exact = take_apart(magnitude);
  const int exponent = exact.exponent + 63 - std::countl_zero(exact.integer);
  const int smallest = 1 - format.bias;  // exponent of the smallest normal number: below it the step stays the same
  if (exponent > format.bias + 1) return sign | format.infinity;
  const int binade = exponent < smallest ? smallest : exponent;
  const uint64_t steps = divide_rounding(exact.integer, binade - format.mantissa_bits - exact.exponent);
  // Codes count steps through all binades; a carry out of the mantissa lands on the next binade by itself.
  const uint64_t code = (static_cast<uint64_t>(binade - smallest) << format.mantissa_bits) + steps;
  return sign | (code > format.largest ? format.infinity : static_cast<uint32_t>(code));
}

double decode(const FloatFormat& format, uint32_t code) {
  const uint32_t magnitude = code & (format.sign - 1);
  double value;
  if (magnitude <= format.largest) {
    const uint32_t binade = magnitude >> format.mantissa_bits;
    const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
    const uint32_t steps = binade == 0 ? mantissa : mantissa + (1u << format.mantissa_bits);
    value = steps * power_of_two(static_cast<int>(binade == 0 ? 1 : binade) - format.bias - format.mantissa_bits);
  } else {
    // e5m2 has an infinity that no saturating conversion gives. Everything above it is NaN.
    const uint32_t infinity = format.infinity > format.largest ? format.infinity : format.largest + 1;
    const bool has_infinity = (infinity & ((1u << format.mantissa_bits) - 1)) == 0;
    value = has_infinity && magnitude == infinity ? std::numeric_limits<double>::infinity()
                                                  : std::numeric_limits<double>::quiet_NaN();
  }
  return code & format.sign ? -value : value;
}

uint8_t encode_e8m0(double value, PowerRounding rounding) {
  if (value != value) return 255;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return 254;
  if (magnitude <= power_of_two(-127)) return 0;
  int exponent = floor_log2(magnitude);
  if (rounding == PowerRounding::up && power_of_two(exponent) < magnitude) ++exponent;
  return static_cast<uint8_t>(exponent > 127 ? 254 : exponent + 127);
}

double decode_e8m0(uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : power_of_two(code - 127);
}

}  // namespace epifuse
