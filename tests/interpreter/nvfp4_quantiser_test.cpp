// NVFP4 against the published blocks, with every intermediate that can be seen, bit for bit.
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "tests/interpreter/quantise_block.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::Block;
using test::f32_of_bits;
using test::hex_bytes;
using test::hex_words;
using test::packed;
using test::quantise;
using test::read_vectors;
using test::scaled_type;

std::vector<double> values_of_bits(Storage storage, const std::string& hex) {
  std::vector<double> values;
  for (uint32_t word : hex_words(hex)) values.push_back(decode(storage, word));
  return values;
}

TEST_CASE("blocks of numerics/nvfp4_blocks.json in both orders of operations") {
  for (const auto& row : read_vectors("numerics/nvfp4_blocks.json", "cases")) {
    const std::vector<double> x = values_of_bits(Storage::f32, row["x"]);
    const auto maximum = static_cast<float>(f32_of_bits(row["global_amax"]));
    for (const auto& [key, rule, factor] : {std::tuple("te", "up", "inv"), std::tuple("torchao", "torchao", "recip")}) {
      if (!row.contains(key)) continue;
      const auto& expected = row[key];
      const Block got = quantise(scaled_type("nvfp4", rule), x, maximum);
      INFO(row["name"].dump() << " " << key);
      CHECK(got.scale.code == hex_words(expected["scale"])[0]);
      CHECK(encode(Storage::f32, got.scale.factor) == hex_words(expected[factor])[0]);
      CHECK(packed(got.codes) == hex_words(expected["q"]));
    }
  }
}

TEST_CASE("a 16x16 block has one scale, and its transpose the transposed codes") {
  const auto block = read_vectors("numerics/nvfp4_blocks.json", "block_16x16");
  std::vector<double> x, transposed(256);
  for (const auto& row : block["x_bf16_rows"])
    for (double value : values_of_bits(Storage::bf16, row)) x.push_back(value);
  for (size_t i = 0; i < 256; ++i) transposed[i % 16 * 16 + i / 16] = x[i];
  const auto maximum = static_cast<float>(f32_of_bits(block["global_amax"]));
  for (const auto& [values, key] : {std::pair(x, "q_row"), std::pair(transposed, "q_col_T")}) {
    const Block got = quantise(scaled_type("nvfp4_16x16"), values, maximum);
    CHECK(got.scale.code == hex_words(block["scale"])[0]);
    CHECK(encode(Storage::f32, got.scale.factor) == hex_words(block["inv"])[0]);
    std::vector<uint32_t> expected;
    for (const auto& row : block[key])
      for (uint32_t byte : hex_words(row)) expected.push_back(byte);
    CHECK(packed(got.codes) == expected);
  }
}

TEST_CASE("blocks of nvfp4_blocks.json") {
  for (const auto& row : read_vectors("nvfp4_blocks.json", "rows")) {
    const std::vector<double> x = row["x"];
    const Block got = quantise(scaled_type("nvfp4"), x, row["amax_tensor"].get<float>());
    INFO(row["name"].dump());
    CHECK(got.scale.code == hex_bytes(row["scale_e4m3"].get<std::string>().substr(2))[0]);
    CHECK(packed(got.codes) == hex_bytes(row["packed_low_nibble_first"]));
    std::string nibbles;
    for (uint32_t code : got.codes) nibbles += "0123456789ABCDEF"[code];
    CHECK(nibbles == row["nibbles"].get<std::string>());
  }
}

TEST_CASE("without a maximum the tensor's scale is 1") {
  const std::vector<double> x = {6, -4, 0.25, 1};
  for (const std::string rule : {"up", "torchao"}) {
    const Block none = quantise(scaled_type("nvfp4", rule), x);
    const Block one = quantise(scaled_type("nvfp4", rule), x, 2688.0f);
    CHECK(none.scale.code == 0x38);
    CHECK(none.scale.code == one.scale.code);
    CHECK(none.codes == one.codes);
    const auto quantiser = *make_quantiser(scaled_type("nvfp4", rule));
    CHECK(quantiser->value(0x7, 0x38) == 6);
    CHECK(quantiser->value(0xF, 0x38, 1344.0f) == -3);
  }
}

}  // namespace
}  // namespace epifuse::interpreter
