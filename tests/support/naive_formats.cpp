#include "tests/support/naive_formats.h"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/support/naive_arithmetic.h"

namespace epifuse::test {
namespace {

using ir::ScaleRule;
using Long = long double;

constexpr float most = std::numeric_limits<float>::max();
constexpr float inf = std::numeric_limits<float>::infinity();

bool is_te(const ir::TensorType& type) { return type.nonfinite == ir::NonFinite::te; }

// The exponent of a power of two by which a block of this largest magnitude is divided.
int mx_exponent(ScaleRule rule, Storage element, Long amax) {
  const Long largest = largest_naively(element);
  const int top = std::ilogb(largest);
  switch (rule) {
    case ScaleRule::up: {  // the least under which nothing overflows
      int exponent = -200;
      while (std::ldexp(largest, exponent) < amax) ++exponent;
      return exponent;
    }
    case ScaleRule::floor: return std::ilogb(amax) - top;
    case ScaleRule::even: {  // the exponent of the magnitude as the element's mantissa has it, halves going up
      const Long step = std::ldexp(1.0L, std::ilogb(amax) - mantissa_naively(element));
      return std::ilogb(std::floor(amax / step + 0.5L) * step) - top;
    }
    case ScaleRule::ceil: {
      int exponent = -200;
      while (std::ldexp(1.0L, exponent + top) < amax) ++exponent;
      return exponent;
    }
    default: throw std::logic_error("a rule that MX formats do not have");
  }
}

// A scale that is a power of two: less than it by no more than a factor of two.
float power_of_two_below(float x) { return static_cast<float>(std::ldexp(1.0L, std::ilogb(x))); }

// |x| + random part of a step, truncated to the format's grid.
Long round_stochastically(Storage storage, Long magnitude, int random_bits) {
  const Long largest = largest_naively(storage);
  const auto step = [&](Long at) {
    const int exponent =
        at == 0 ? least_exponent_naively(storage) : std::max(std::ilogb(at), least_exponent_naively(storage));
    return std::ldexp(1.0L, exponent - mantissa_naively(storage));
  };
  if (magnitude >= largest) return largest;
  const Long moved = magnitude + random_bits * step(magnitude) / 256;
  return std::min(std::floor(moved / step(moved)) * step(moved), largest);
}

}  // namespace

NaiveFormat::NaiveFormat(const ir::TensorType& type, std::optional<float> amax)
    : type_(type), info_(ir::format_info(type.format)), largest_(static_cast<float>(largest_naively(type.element))) {
  encode_ = decode_ = 1;
  if (info_.scale != Storage::e4m3 || !amax) return;
  if (type.rule == ScaleRule::torchao) {
    decode_ = *amax / 2688;
    encode_ = 1 / decode_;
  } else {
    if (*amax != 0) encode_ = std::fmin(2688 / *amax, most);
    if (encode_ == 0) encode_ = 1;
    decode_ = 1 / encode_;
  }
}

uint32_t NaiveFormat::scale(float largest) const {
  const bool poisoned = std::isnan(largest) || (std::isinf(largest) && !is_te(type_));
  switch (info_.scale) {
    case Storage::e8m0: {
      if (poisoned) return 255;
      if (std::isinf(largest)) return 254;
      if (largest == 0) return 0;
      const int code = mx_exponent(type_.rule, type_.element, largest) + 127;
      return static_cast<uint32_t>(std::min(std::max(code, 0), 254));
    }
    case Storage::e4m3: return poisoned ? 0x7F : nvfp4_scale(largest);
    default: break;
  }
  if (poisoned) return 0x7FC00000;
  if (std::isinf(largest)) return std::bit_cast<uint32_t>(1.0f);
  switch (type_.rule) {
    case ScaleRule::deepgemm: return std::bit_cast<uint32_t>(std::fmax(largest, 1e-4f) / largest_);
    case ScaleRule::vllm: return std::bit_cast<uint32_t>(std::fmax(largest, 1e-10f) / largest_);
    default: return std::bit_cast<uint32_t>(1 / fp8_factor(largest));
  }
}

bool NaiveFormat::is_poisoned(uint32_t scale) const { return std::isnan(decode_naively(info_.scale, scale)); }

// What elements are multiplied with, of the rules that compute it before the scale.
float NaiveFormat::fp8_factor(float largest) const {
  if (type_.rule == ScaleRule::torchao) return largest_ / std::fmax(largest, 1e-12f);
  if (largest == 0 || !std::isfinite(largest)) return 1;
  const float factor = std::fmin(largest_ / largest, most);
  return type_.rule == ScaleRule::up ? power_of_two_below(factor) : factor;
}

uint32_t NaiveFormat::nvfp4_scale(float largest) const {
  float scale = 0;
  if (type_.rule == ScaleRule::torchao) {
    const float sixth = largest / 6;
    scale = std::fmin(std::fmax(sixth / decode_, 0x1p-6f), 448.0f);
  } else {
    const float sixth = encode_ * std::bit_cast<float>(0x3E2AAAABu);
    scale = std::fmin(largest * sixth, most);
  }
  return encode_naively(Storage::e4m3, round_naively(Storage::e4m3, scale));
}

float NaiveFormat::nvfp4_factor(uint32_t scale) const {
  const auto block = static_cast<float>(decode_naively(Storage::e4m3, scale));
  if (type_.rule == ScaleRule::torchao) return encode_ / block;
  const float both = block * decode_;
  return std::fmin(1 / both, most);
}

NaiveFormat::Factors NaiveFormat::factors(uint32_t scale, float low, float high) const {
  const auto stored = static_cast<float>(decode_naively(info_.scale, scale));
  if (info_.scale == Storage::e8m0) {
    const auto inverse = static_cast<float>(std::ldexp(1.0L, 127 - static_cast<int>(scale)));
    return {inverse, inverse};
  }
  if (info_.scale == Storage::e4m3) return {nvfp4_factor(scale), nvfp4_factor(scale)};
  if (std::isinf(high)) return {1, 1};
  switch (type_.rule) {
    case ScaleRule::deepgemm: return {1 / stored, 1 / stored};
    case ScaleRule::vllm: return {stored, stored};
    default: break;
  }
  // Several factors have this inverse, or one that a computation in double may round to it.
  const float least = fp8_factor(high), most_possible = fp8_factor(low);
  return {std::fmax(least, 1 / std::nextafter(stored, inf)),
          std::fmin(most_possible, 1 / std::nextafter(stored, 0.0f))};
}

uint32_t NaiveFormat::element(float x, float factor, std::optional<int> random_bits) const {
  const bool divides = type_.rule == ScaleRule::vllm;
  const float scaled = divides ? x / factor : x * factor;
  if (std::isnan(scaled) || std::isinf(scaled) || !random_bits)
    return encode_naively(type_.element, round_naively(type_.element, scaled));
  const Long magnitude = round_stochastically(type_.element, std::fabs(scaled), *random_bits);
  return encode_naively(type_.element, std::copysign(magnitude, static_cast<Long>(scaled)));
}

Long NaiveFormat::scale_value(uint32_t scale) const { return decode_naively(info_.scale, scale) * decode_; }

uint32_t encode_naively(Storage storage, Long value) {
  const bool half = storage == Storage::e2m1;
  if (std::isnan(value)) return half ? 0x7 : 0x7F;
  const uint32_t sign = half ? 8 : 0x80;
  // Codes are ordered as their magnitudes, numbers before infinities and NaN.
  uint32_t code = 0;
  for (uint32_t bit = sign / 2; bit != 0; bit /= 2)
    if (decode_naively(storage, code | bit) <= std::fabs(value)) code |= bit;
  if (decode_naively(storage, code) != std::fabs(value))
    throw std::logic_error("a number that the format does not have");
  return std::signbit(value) ? sign | code : code;
}

std::array<uint32_t, 4> philox_naively(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0], second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace epifuse::test
