// Stochastic rounding: the bits, the rounding that they decide, and what it is on average.
#include "compiler/interpreter/stochastic.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using Words = std::array<uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives the published words") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an element's bits are a byte of the call for its four rows and columns") {
  const int64_t seed = 0x1122334455667788, offset = 0x0000000500000007;
  const RandomBits bits(seed, offset, 3);
  for (int64_t row : {0, 1, 6, 1003})
    for (int64_t column : {0, 3, 4, 77}) {
      const Words words = philox({static_cast<uint32_t>(column / 4), static_cast<uint32_t>(row / 4), 9u | 3u << 24, 7},
                                 {0x55667788, 0x11223344 ^ 5});
      CHECK(bits.at({row, column, 9}) == (words[row % 4] >> (8 * (column % 4)) & 0xFF));
    }
  // Other outputs, groups, seeds and offsets have other bits.
  const auto first = [](const RandomBits& from, int64_t matrix) {
    std::vector<uint32_t> list;
    for (int64_t column = 0; column < 16; ++column) list.push_back(from.at({0, column, matrix}));
    return list;
  };
  const std::set<std::vector<uint32_t>> all = {first(bits, 0),
                                               first(bits, 1),
                                               first(RandomBits(seed, offset, 4), 0),
                                               first(RandomBits(seed + 1, offset, 3), 0),
                                               first(RandomBits(seed, offset + 1, 3), 0),
                                               first(RandomBits(seed, offset + (int64_t{1} << 32), 3), 0)};
  CHECK(all.size() == 6);
}

TEST_CASE("numerics/e2m1_stochastic.json") {
  int checked = 0;
  for (const auto& row : test::read_vectors("numerics/e2m1_stochastic.json", "rows")) {
    INFO(row.dump());
    CHECK(encode_stochastically(float_format(Storage::e2m1), test::f32_of_bits(row[0]), row[1].get<uint32_t>()) ==
          std::stoul(row[2].get<std::string>(), nullptr, 16));
    ++checked;
  }
  CHECK(checked == 256);
}

TEST_CASE("every value becomes one of its two neighbours, and the right one on average") {
  for (Storage storage : {Storage::e2m1, Storage::e4m3, Storage::e5m2}) {
    const FloatFormat& format = float_format(storage);
    const double largest = decode(format, format.largest);
    for (int i = 0; i < 4000; ++i) {
      // All binades, subnormals of the format included.
      const double x = static_cast<float>(std::exp2(-20.0 + 36.0 * i / 4000) * (1 + 0.37 * (i % 7) / 7));
      if (x > largest) continue;
      double sum = 0;
      uint32_t least = format.largest, most = 0;
      for (uint32_t random = 0; random < 256; ++random) {
        const uint32_t code = encode_stochastically(format, x, random);
        least = std::min(least, code), most = std::max(most, code);
        sum += decode(format, code);
        CHECK(encode_stochastically(format, -x, random) == (code | format.sign));
      }
      INFO(storage_name(storage) << " of " << x);
      REQUIRE(most <= least + 1);
      const double below = decode(format, least);
      REQUIRE(below <= x);
      if (most != least) REQUIRE(x < decode(format, most));
      // Eight bits: the mean is at most a 256th of the step too small.
      const double step = decode(format, least + (least < format.largest)) - below;
      const double mean = sum / 256;
      REQUIRE(mean <= x);
      REQUIRE(mean >= x - step / 256);
    }
  }
}

TEST_CASE("numbers of the format stay as they are, and others saturate") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (Storage storage : {Storage::e2m1, Storage::e4m3, Storage::e5m2}) {
    const FloatFormat& format = float_format(storage);
    for (uint32_t code = 0; code <= format.largest; ++code)
      for (uint32_t random : {0u, 1u, 128u, 255u}) {
        CHECK(encode_stochastically(format, decode(format, code), random) == code);
        CHECK(encode_stochastically(format, -decode(format, code), random) == (code | format.sign));
      }
    for (double x : {decode(format, format.largest) * 1.01, 1e30, infinity}) {
      CHECK(encode_stochastically(format, x, 255) == format.largest);
      CHECK(encode_stochastically(format, -x, 0) == (format.largest | format.sign));
    }
    CHECK(encode_stochastically(format, std::nan(""), 77) == format.nan);
    // Of next to nothing, no random bits make anything.
    CHECK(encode_stochastically(format, 0x1p-149, 255) == 0);
  }
}

}  // namespace
}  // namespace epifuse::interpreter
