// The microscaling formats against the published blocks, bit for bit.
#include "compiler/interpreter/quantiser.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "compiler/interpreter/mx_quantiser.h"
#include "tests/interpreter/quantise_block.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::Block;
using test::f32_of_bits;
using test::GraphBuilder;
using test::hex_bytes;
using test::hex_words;
using test::packed;
using test::quantise;
using test::read_vectors;
using test::scaled_type;

// The vectors' names of rules; "rceil" is our `up`.
std::string rule_of(const std::string& name) { return name == "rceil" ? "up" : name; }

TEST_CASE("scale rules, from the largest magnitude") {
  const std::string rules[] = {"floor", "even", "rceil", "ceil"};
  for (const auto& row : read_vectors("numerics/e8m0_scale.json", "rows")) {
    const double amax = f32_of_bits(row[0]);
    const std::string elements[] = {"e4m3", "e5m2", "e2m1"};
    for (int e = 0; e < 3; ++e) {
      const std::vector<uint32_t> expected = hex_words(row[1 + e]);
      for (int r = 0; r < 4; ++r) {
        INFO(row.dump() << " " << elements[e] << " " << rules[r]);
        const bool is_fp4 = elements[e] == "e2m1";
        const auto quantiser =
            make_quantiser(scaled_type(is_fp4 ? "mxfp4" : "mxfp8", rule_of(rules[r]), is_fp4 ? "" : elements[e]));
        REQUIRE(quantiser);
        CHECK((*quantiser)->scale(amax) == expected[r]);
      }
    }
  }
}

void check_blocks(const std::string& file, const std::string& format, int at_least) {
  int checked = 0;
  for (const auto& block : read_vectors(file, "cases")) {
    std::vector<double> x;
    for (uint32_t word : hex_words(block["x"])) x.push_back(decode(Storage::f32, word));
    for (const auto& [key, expected] : block.items()) {
      if (key[0] != 'e') continue;
      const std::string element = key.substr(0, 4);
      std::string rule = key.substr(5);
      const bool te = rule.size() > 3 && rule.substr(rule.size() - 3) == "_te";
      if (te) rule.resize(rule.size() - 3);
      ir::TensorType type = scaled_type(format, rule_of(rule), element);
      if (te) type.nonfinite = ir::NonFinite::te;
      const Block got = quantise(type, x);
      INFO(block["name"].dump() << " " << key);
      CHECK(got.scale.code == hex_words(expected["scale"])[0]);
      CHECK((element == "e2m1" ? packed(got.codes) : got.codes) == hex_words(expected["q"]));
      ++checked;
    }
  }
  CHECK(checked >= at_least);
}

TEST_CASE("blocks of numerics/mxfp8_blocks.json") {
  check_blocks("numerics/mxfp8_blocks.json", "mxfp8", 100);
  check_blocks("numerics/mxfp8_blocks.json", "mxfp8_32x32", 100);
}

TEST_CASE("blocks of numerics/mxfp4_blocks.json") { check_blocks("numerics/mxfp4_blocks.json", "mxfp4", 64); }

TEST_CASE("blocks of mxfp8_blocks.json") {
  for (const auto& row : read_vectors("mxfp8_blocks.json", "rows")) {
    std::vector<double> x;
    for (const auto& word : row["x_f32"]) x.push_back(f32_of_bits(word));
    for (const std::string rule : {"rceil", "floor"}) {
      const Block got = quantise(scaled_type("mxfp8", rule_of(rule), row["elem"]), x);
      INFO(row["name"].dump() << " " << rule);
      CHECK(got.scale.code == hex_bytes(row[rule]["scale"].get<std::string>().substr(2))[0]);
      CHECK(got.codes == hex_bytes(row[rule]["codes"]));
    }
  }
}

TEST_CASE("a probability multiplies before the quantiser") {
  const auto vectors = read_vectors("prob_before_quant.json");
  std::vector<double> x = vectors["x"], scaled;
  for (double value : x) scaled.push_back(value * vectors["prob"].get<double>());
  const Block got = quantise(scaled_type("mxfp8"), scaled);
  CHECK(got.scale.code == hex_bytes(vectors["scale_then_quant"]["scale"].get<std::string>().substr(2))[0]);
  CHECK(got.codes == hex_bytes(vectors["scale_then_quant"]["codes"]));
}

TEST_CASE("a rule that is none of the type's is refused by name") {
  for (const auto& [format, rule] : std::vector<std::pair<std::string, std::string>>{
           {"fp8_1x128", "floor"}, {"mxfp8", "te_f32"}, {"mxfp4", "vllm"}, {"nvfp4", "even"}, {"nvfp4", "deepgemm"}}) {
    const auto refused = make_quantiser(scaled_type(format, rule));
    REQUIRE(!refused);
    CHECK(refused.error().message.find(format + "(rule = " + rule) != std::string::npos);
  }
}

// What a block's scale is under each policy where an element is NaN or infinite.
TEST_CASE("special values of every format and rule") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, std::vector<std::string>>> formats = {
      {"mxfp8", {"up", "floor", "even", "ceil"}},
      {"mxfp8_32x32", {"up", "floor", "even", "ceil"}},
      {"mxfp4", {"up", "floor", "even", "ceil"}},
      {"fp8_1x128", {"up", "te_f32", "deepgemm", "torchao", "vllm"}},
      {"fp8_128x128", {"up", "te_f32", "deepgemm", "torchao", "vllm"}},
      {"nvfp4", {"up", "torchao"}},
      {"nvfp4_16x16", {"up", "torchao"}}};
  for (const auto& [format, rules] : formats)
    for (const std::string& rule : rules)
      for (const std::string element : {"e4m3", "e5m2"}) {
        const ir::FormatInfo& info = ir::format_info(*ir::parse_format(format));
        if (info.element == Storage::e2m1 && element == "e5m2") continue;
        ir::TensorType type = scaled_type(format, rule, info.element == Storage::e2m1 ? "" : element);
        INFO(ir::print_type(type));
        const FloatFormat& codes = float_format(type.element);
        const uint32_t nan_scale = info.scale == Storage::e8m0 ? 0xFF : info.scale == Storage::e4m3 ? 0x7F : 0x7FC00000;
        // Propagated: everything is NaN.
        for (double special : {nan, infinity, -infinity}) {
          const Block block = quantise(type, {1, special, -2});
          CHECK(block.scale.code == nan_scale);
          CHECK(block.codes == std::vector<uint32_t>(3, codes.nan));
        }
        type.nonfinite = ir::NonFinite::te;
        const Block without = quantise(type, {1, -2});
        const Block dropped = quantise(type, {1, nan, -2});
        CHECK(dropped.scale.code == without.scale.code);
        CHECK(dropped.codes == std::vector<uint32_t>{without.codes[0], codes.nan, without.codes[1]});
        const Block all = quantise(type, {nan, nan});
        CHECK(all.scale.code == quantise(type, {0, 0}).scale.code);
        CHECK(all.codes == std::vector<uint32_t>(2, codes.nan));
        const Block infinite = quantise(type, {infinity, -infinity});
        CHECK(infinite.scale.code == (info.scale == Storage::e8m0   ? 0xFE
                                      : info.scale == Storage::e4m3 ? 0x7E
                                                                    : 0x3F800000));
        CHECK(infinite.codes == std::vector<uint32_t>{codes.largest, codes.largest | codes.sign});
        // Zeros keep their signs, and are zeros under a scale that is a number.
        const Block zero = quantise(type, {0, -0.0});
        CHECK(zero.codes == std::vector<uint32_t>{0, codes.sign});
        const auto quantiser = *make_quantiser(type);
        CHECK(std::isfinite(quantiser->scale_value(zero.scale.code)));
        CHECK(quantiser->value(0, zero.scale.code) == 0);
      }
}

TEST_CASE("codes of scales are ordered as magnitudes are") {
  for (const auto& [format, rule] : std::vector<std::pair<std::string, std::string>>{{"mxfp8", "up"},
                                                                                     {"mxfp8", "even"},
                                                                                     {"mxfp4", "floor"},
                                                                                     {"fp8_1x128", "up"},
                                                                                     {"fp8_1x128", "te_f32"},
                                                                                     {"fp8_1x128", "deepgemm"},
                                                                                     {"fp8_1x128", "torchao"},
                                                                                     {"fp8_1x128", "vllm"},
                                                                                     {"nvfp4", "up"},
                                                                                     {"nvfp4", "torchao"}}) {
    const auto quantiser = *make_quantiser(scaled_type(format, rule));
    uint32_t last = 0;
    for (int exponent = -149; exponent < 128; ++exponent)
      for (double mantissa : {1.0, 1.25, 1.4999999, 1.5, 1.75, 1.7500001, 1.9999999}) {
        const double amax = static_cast<float>(std::ldexp(mantissa, exponent));
        if (std::isinf(amax)) continue;
        const BlockScale scale = quantiser->block_scale(amax, 100.0f);
        INFO(format << " " << rule << " of " << amax);
        CHECK(scale.code >= last);
        last = scale.code;
        // What is stored says the factor, but for a few units in the last place.
        const Quantiser::Factors factors = quantiser->factors(scale.code, 100.0f);
        CHECK((factors.least <= scale.factor && scale.factor <= factors.most));
        CHECK(factors.most <= factors.least * (1 + 0x1p-19));
      }
  }
}

}  // namespace
}  // namespace epifuse::interpreter
