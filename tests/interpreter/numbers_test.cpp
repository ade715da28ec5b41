// Conversions against the published vectors, and against a second method that shares nothing with them.
#include "base/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::f32_of_bits;
using test::read_vectors;

uint32_t hex(const nlohmann::json& text) {
  return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

// The second method: try every code, take the nearest, ties to the even code. Saturates.
uint32_t nearest_code(Storage storage, double value) {
  const FloatFormat& format = float_format(storage);
  uint32_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  // Far beyond the largest number all distances would be one double.
  const double magnitude = std::min(std::fabs(value), 2 * decode(storage, format.largest));
  for (uint32_t code = 0; code <= format.largest; ++code) {
    const double d = std::fabs(decode(storage, code) - magnitude);
    if (d < distance || (d == distance && code % 2 == 0)) best = code, distance = d;
  }
  return best | (std::signbit(value) ? format.sign : 0);
}

TEST_CASE("conversion vectors of the 8-bit and 4-bit formats") {
  for (const auto& row : read_vectors("numerics/elem_conversions.json", "rows")) {
    const double x = f32_of_bits(row[0]);
    INFO(row.dump());
    CHECK(encode(Storage::e4m3, x) == hex(row[1]));
    CHECK(encode(Storage::e5m2, x) == hex(row[2]));
    CHECK(encode(Storage::e2m1, x) == hex(row[3]));
  }
}

TEST_CASE("scalar vectors") {
  for (const auto& [file, storage] :
       {std::pair{"scalar_e4m3.json", Storage::e4m3}, {"scalar_e2m1.json", Storage::e2m1}})
    for (const auto& row : read_vectors(file, "rows")) {
      INFO(row.dump());
      const double x = f32_of_bits(row["x_f32"]);
      const uint32_t code = encode(storage, x);
      // The sign of a NaN means nothing.
      CHECK((std::isnan(x) ? code & (float_format(storage).sign - 1) : code) ==
            (std::isnan(x) ? hex(row["satfinite"]) & (float_format(storage).sign - 1) : hex(row["satfinite"])));
    }
}

TEST_CASE("e8m0 vectors") {
  for (const auto& row : read_vectors("numerics/e8m0_cvt.json", "rows")) {
    INFO(row.dump());
    const double x = f32_of_bits(row[0]);
    CHECK(encode_e8m0(x, PowerRounding::up) == hex(row[1]));
    CHECK(encode_e8m0(x, PowerRounding::down) == hex(row[3]));
  }
  for (const auto& row : read_vectors("e8m0_decode.json", "rows")) {
    const double value = decode_e8m0(static_cast<uint8_t>(hex(row["code"])));
    if (hex(row["code"]) == 255)
      CHECK(std::isnan(value));
    else
      CHECK(value == f32_of_bits(row["value_f32"]));
  }
}

TEST_CASE("8-bit and 4-bit codes are the nearest ones") {
  // Bit patterns of f32 in a stride that is no power of two: all exponents, both signs.
  for (Storage storage : {Storage::e4m3, Storage::e5m2, Storage::e2m1})
    for (uint64_t bits = 0; bits < 0x100000000; bits += 15013) {
      const double x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      if (!std::isfinite(x)) continue;
      if (encode(storage, x) != nearest_code(storage, x)) {
        INFO(storage_name(storage) << " of " << x);
        CHECK(encode(storage, x) == nearest_code(storage, x));
      }
    }
}

TEST_CASE("f32 is the rounding of IEEE arithmetic") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000000; ++i) {
    const double x = std::bit_cast<double>((random() & 0x800FFFFFFFFFFFFF) | ((1023 - 160 + random() % 300) << 52));
    const uint32_t expected = std::bit_cast<uint32_t>(static_cast<float>(x));
    if (encode(Storage::f32, x) != expected) CHECK(encode(Storage::f32, x) == expected);
  }
}

TEST_CASE("every code of every format comes back") {
  for (Storage storage : {Storage::bf16, Storage::f16, Storage::e4m3, Storage::e5m2, Storage::e2m1}) {
    const FloatFormat& format = float_format(storage);
    for (uint32_t code = 0; code < 2 * format.sign; ++code) {
      if (std::isnan(decode(storage, code))) continue;
      // e5m2 has codes for infinity that its saturating conversion does not give.
      if (std::isinf(decode(storage, code)) && format.infinity == format.largest) continue;
      if (encode(storage, decode(storage, code)) != code) CHECK(encode(storage, decode(storage, code)) == code);
    }
  }
}

TEST_CASE("a double is rounded once") {
  // Just above the middle between two bf16: through f32 it would become the middle, and then the even neighbour.
  const double middle = 1 + 0x1p-8;
  CHECK(round_to(Storage::bf16, middle) == 1.0);
  CHECK(round_to(Storage::bf16, middle + 0x1p-40) == 1 + 0x1p-7);
  CHECK(round_to(Storage::bf16, static_cast<float>(middle + 0x1p-40)) == 1.0);
  // f16 likewise, and a subnormal of bf16.
  CHECK(encode(Storage::f16, 1 + 0x1p-11 + 0x1p-50) == 0x3C01);
  CHECK(encode(Storage::bf16, 0x1p-134) == 0);
  CHECK(encode(Storage::bf16, 0x1p-134 + 0x1p-180) == 1);
}

TEST_CASE("zeros, infinities and NaN") {
  CHECK(encode(Storage::f32, -0.0) == 0x80000000);
  CHECK(encode(Storage::bf16, -0.0) == 0x8000);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(encode(Storage::bf16, infinity) == 0x7F80);
  CHECK(encode(Storage::f16, 65520.0) == 0x7C00);
  CHECK(encode(Storage::f16, 65519.0) == 0x7BFF);
  CHECK(encode(Storage::e4m3, -infinity) == 0xFE);
  CHECK(encode(Storage::e5m2, infinity) == 0x7B);
  CHECK(encode(Storage::e4m3, std::nan("")) == 0x7F);
  CHECK(std::isnan(decode(Storage::e4m3, 0xFF)));
  CHECK(decode(Storage::e4m3, 0x7E) == 448);
  CHECK(decode(Storage::e5m2, 0x7C) == infinity);
  CHECK(std::isnan(decode(Storage::e5m2, 0x7D)));
  CHECK(encode(Storage::f32, 0x1p-149) == 1);
  CHECK(encode(Storage::f32, 0x1p-150) == 0);
}

}  // namespace
}  // namespace epifuse::interpreter
