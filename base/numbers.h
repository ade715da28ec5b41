// Exact conversions between numbers and the codes that stand for them in memory (numerics.md's tables are the law).
//
// They are written from the definition of the formats, on exact integers: a code is the multiple of the format's local
// step that lies nearest, ties to the even multiple, found from the double itself, so a double is rounded once. They
// share nothing with the device's conversions, which they judge.
#pragma once

#include <cstdint>

#include "base/storage.h"

namespace epifuse {

// A binary floating format of at most 32 bits.
struct FloatFormat {
  int mantissa_bits;
  int bias;
  uint32_t largest;   // code of the largest finite number
  uint32_t infinity;  // code that an overflow gives; `largest` for the formats that saturate (e4m3, e5m2, e2m1)
  uint32_t nan;       // code that NaN gives
  uint32_t sign;      // the sign bit
};

// f32, bf16, f16, e4m3, e5m2 or e2m1.
const FloatFormat& float_format(Storage storage);
bool is_float(Storage storage);  // has a FloatFormat

// The code of a double. NaN gives the format's NaN (e2m1: +6); infinity gives infinity, or saturates as an overflow
// does.
uint32_t encode(const FloatFormat& format, double value);
double decode(const FloatFormat& format, uint32_t code);

inline uint32_t encode(Storage storage, double value) { return encode(float_format(storage), value); }
inline double decode(Storage storage, uint32_t code) { return decode(float_format(storage), code); }

// The double that a store into the format and a load bring back.
inline double round_to(Storage storage, double value) { return decode(storage, encode(storage, value)); }

// e8m0: 2^(code - 127), 255 is NaN, the sign is ignored.
enum class PowerRounding { up, down };
uint8_t encode_e8m0(double value, PowerRounding rounding);  // finite overflow and infinity saturate to 254
double decode_e8m0(uint8_t code);

// floor(log2(value)) of a positive finite number.
int floor_log2(double value);

}  // namespace epifuse
