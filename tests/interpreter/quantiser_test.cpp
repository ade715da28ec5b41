// MXFP8 against the published blocks, bit for bit.
#include "compiler/interpreter/quantiser.h"

#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "compiler/interpreter/mx_quantiser.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::f32_of_bits;
using test::GraphBuilder;
using test::hex_bytes;
using test::hex_words;
using test::read_vectors;

struct Block {
  uint32_t scale;
  std::vector<uint32_t> codes;
};

Block quantise(const ir::TensorType& type, const std::vector<double>& values) {
  const Result<std::unique_ptr<Quantiser>> quantiser = make_quantiser(type);
  REQUIRE(quantiser);
  Block block;
  block.scale = (*quantiser)->scale((*quantiser)->amax(values.data(), static_cast<int64_t>(values.size())));
  for (double value : values) block.codes.push_back((*quantiser)->element(value, block.scale));
  return block;
}

ir::TensorType mxfp8(const std::string& element, const std::string& rule) {
  ir::TensorType type = GraphBuilder::type("mxfp8");
  type.element = parse_storage(element).value();
  type.rule = ir::parse_rule(rule == "rceil" ? "up" : rule).value();
  return type;
}

TEST_CASE("scale rules, from the largest magnitude") {
  const std::string rules[] = {"floor", "even", "rceil", "ceil"};
  for (const auto& row : read_vectors("numerics/e8m0_scale.json", "rows")) {
    const double amax = f32_of_bits(row[0]);
    const Storage elements[] = {Storage::e4m3, Storage::e5m2, Storage::e2m1};
    for (int e = 0; e < 3; ++e) {
      const std::vector<uint32_t> expected = hex_words(row[1 + e]);
      for (int r = 0; r < 4; ++r) {
        INFO(row.dump() << " " << storage_name(elements[e]) << " " << rules[r]);
        if (amax == 0) continue;  // a zero block has no exponent: see the blocks below
        const ir::ScaleRule rule = ir::parse_rule(rules[r] == "rceil" ? "up" : rules[r]).value();
        const int byte = scale_exponent(rule, elements[e], amax) + 127;
        CHECK(static_cast<uint32_t>(byte < 0 ? 0 : byte) == expected[r]);
      }
    }
  }
}

TEST_CASE("blocks of numerics/mxfp8_blocks.json") {
  int checked = 0;
  for (const auto& block : read_vectors("numerics/mxfp8_blocks.json", "cases")) {
    std::vector<double> x;
    for (uint32_t word : hex_words(block["x"])) x.push_back(decode(Storage::f32, word));
    for (const auto& [key, expected] : block.items()) {
      if (key[0] != 'e') continue;
      std::string rule = key.substr(5);
      const bool te = rule.size() > 3 && rule.substr(rule.size() - 3) == "_te";
      if (te) rule.resize(rule.size() - 3);
      ir::TensorType type = mxfp8(key.substr(0, 4), rule);
      if (te) type.nonfinite = ir::NonFinite::te;
      const Block got = quantise(type, x);
      INFO(block["name"].dump() << " " << key);
      CHECK(got.scale == hex_words(expected["scale"])[0]);
      CHECK(got.codes == hex_words(expected["q"]));
      ++checked;
    }
  }
  CHECK(checked >= 100);
}

TEST_CASE("blocks of mxfp8_blocks.json") {
  for (const auto& row : read_vectors("mxfp8_blocks.json", "rows")) {
    std::vector<double> x;
    for (const auto& word : row["x_f32"]) x.push_back(f32_of_bits(word));
    for (const std::string rule : {"rceil", "floor"}) {
      const Block got = quantise(mxfp8(row["elem"], rule), x);
      INFO(row["name"].dump() << " " << rule);
      CHECK(got.scale == hex_bytes(row[rule]["scale"].get<std::string>().substr(2))[0]);
      CHECK(got.codes == hex_bytes(row[rule]["codes"]));
    }
  }
}

TEST_CASE("a probability multiplies before the quantiser") {
  const auto vectors = read_vectors("prob_before_quant.json");
  std::vector<double> x = vectors["x"], scaled;
  for (double value : x) scaled.push_back(value * vectors["prob"].get<double>());
  const Block got = quantise(mxfp8("e4m3", "rceil"), scaled);
  CHECK(got.scale == hex_bytes(vectors["scale_then_quant"]["scale"].get<std::string>().substr(2))[0]);
  CHECK(got.codes == hex_bytes(vectors["scale_then_quant"]["codes"]));
}

TEST_CASE("what is not there yet is refused by name") {
  for (const std::string format : {"fp8_1x128", "fp8_128x128", "mxfp8_32x32", "mxfp4", "nvfp4", "nvfp4_16x16"}) {
    const auto refused = make_quantiser(GraphBuilder::type(format));
    REQUIRE(!refused);
    CHECK(refused.error().message.find(format) != std::string::npos);
  }
  ir::TensorType blocked = GraphBuilder::type("mxfp8");
  blocked.layout = ir::ScaleLayout::blocked_128x4;
  const auto refused = make_quantiser(blocked);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("blocked_128x4") != std::string::npos);
}

TEST_CASE("scales have the data's shape with the blocked dimension divided, rounded up") {
  ir::TensorType type = GraphBuilder::type("mxfp8");
  CHECK(scale_extents(type, {5, 65}) == std::vector<int64_t>{5, 3});
  type.along_axis = 0;
  CHECK(scale_extents(type, {64, 7}) == std::vector<int64_t>{2, 7});
  CHECK(scale_extents(GraphBuilder::type("fp8_128x128"), {3, 200, 300}) == std::vector<int64_t>{3, 2, 3});
}

}  // namespace
}  // namespace epifuse::interpreter
