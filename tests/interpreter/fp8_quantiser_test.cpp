// FP8 with f32 scales against the published rows of 128, bit for bit.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "tests/interpreter/quantise_block.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::Block;
using test::hex_words;
using test::quantise;
using test::read_vectors;
using test::scaled_type;

const char* const file = "numerics/fp8_per_token_1x128.json";

std::vector<double> values_of_bits(const std::string& hex) {
  std::vector<double> values;
  for (uint32_t word : hex_words(hex)) values.push_back(decode(Storage::f32, word));
  return values;
}

uint32_t word(const nlohmann::json& hex) { return hex_words(hex.get<std::string>())[0]; }

TEST_CASE("rows of 128 under the presets that a rule names") {
  const std::pair<std::string, std::string> presets[] = {
      {"te_f32", "te_f32"}, {"te_pow2", "up"}, {"deepgemm_f32", "deepgemm"}, {"torchao", "torchao"}, {"vllm", "vllm"}};
  for (const auto& row : read_vectors(file, "cases"))
    for (const auto& [preset, rule] : presets)
      for (const std::string format : {"fp8_1x128", "fp8_128x128"}) {
        const auto& expected = row[preset];
        const Block got = quantise(scaled_type(format, rule), values_of_bits(row["x"]));
        INFO(row["name"].dump() << " " << preset);
        CHECK(got.scale.code == word(expected["dequant_scale"]));
        CHECK(got.codes == hex_words(expected["q"]));
        if (expected.contains("quant_scale"))
          CHECK(encode(Storage::f32, got.scale.factor) == word(expected["quant_scale"]));
      }
}

TEST_CASE("presets of the vectors that no rule names") {
  // Scales packed as exponents, and the power of two that is rounded down.
  CHECK(!ir::parse_rule("deepgemm_ue8m0"));
  CHECK(!ir::parse_rule("pow2_floor"));
  CHECK(!make_quantiser(scaled_type("fp8_1x128", "floor")));
  // pow2_rceil is `up`, but that Transformer Engine stores 1 for zeros.
  for (const auto& row : read_vectors(file, "cases")) {
    if (row["amax"] == "00000000") continue;
    const Block got = quantise(scaled_type("fp8_1x128"), values_of_bits(row["x"]));
    CHECK(got.scale.code == word(row["pow2_rceil"]["dequant_scale"]));
    CHECK(got.codes == hex_words(row["pow2_rceil"]["q"]));
  }
}

TEST_CASE("scales from largest magnitudes, of both element types") {
  int checked = 0;
  for (const auto& row : read_vectors(file, "per_tensor_scale")) {
    const double amax = decode(Storage::f32, word(row[0]));
    const std::string element = row[1] == 448 ? "e4m3" : "e5m2";
    for (const auto& [rule, column] : {std::pair("te_f32", 2), std::pair("up", 4)}) {
      const auto quantiser = *make_quantiser(scaled_type("fp8_1x128", rule, element));
      if (!std::isfinite(amax)) continue;  // the policies for these are below
      const BlockScale scale = quantiser->block_scale(amax);
      INFO(row.dump() << " " << rule);
      CHECK(encode(Storage::f32, scale.factor) == word(row[column]));
      CHECK(scale.code == word(row[column + 1]));
      ++checked;
    }
  }
  CHECK(checked > 30);
}

TEST_CASE("blocks that are not finite, under both policies") {
  for (const auto& row : read_vectors(file, "nonfinite_cases")) {
    const std::vector<double> x = values_of_bits(row["x"]);
    ir::TensorType type = scaled_type("fp8_1x128", "te_f32");
    INFO(row["name"].dump());
    const Block propagated = quantise(type, x);
    CHECK(propagated.scale.code == word(row["propagate"]["dequant_scale"]));
    CHECK(propagated.codes == hex_words(row["propagate"]["q"]));
    type.nonfinite = ir::NonFinite::te;
    const Block got = quantise(type, x);
    CHECK(got.scale.code == word(row["te_f32"]["dequant_scale"]));
    CHECK(got.codes == hex_words(row["te_f32"]["q"]));
  }
}

TEST_CASE("a stored inverse leaves a few factors open, and all of them give it") {
  const auto quantiser = *make_quantiser(scaled_type("fp8_1x128", "te_f32"));
  int open = 0;
  for (uint32_t code = 0x3F000000; code < 0x3F800000; code += 0x1237) {
    const Quantiser::Factors factors = quantiser->factors(code);
    for (double factor : {factors.least, factors.most}) {
      const float inverse = 1.0f / static_cast<float>(factor);
      if (factors.least != factors.most) CHECK(encode(Storage::f32, inverse) == code);
    }
    open += factors.least != factors.most;
  }
  CHECK(open > 0);
}

}  // namespace
}  // namespace epifuse::interpreter
