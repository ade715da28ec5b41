// The naive evaluation's formats against the exact vectors: what the interpreter is compared with is right by itself.
#include "tests/support/naive_formats.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/vectors.h"

using namespace epifuse;
using namespace epifuse::test;
using ir::ScaleRule;
using nlohmann::json;

namespace {

std::vector<uint32_t> words(const json& text) {
  std::istringstream in(text.get<std::string>());
  std::vector<uint32_t> result;
  for (std::string word; in >> word;) result.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  return result;
}
std::vector<float> floats(const json& text) {
  std::vector<float> result;
  for (const uint32_t word : words(text)) result.push_back(std::bit_cast<float>(word));
  return result;
}

ir::TensorType type_of(ir::Format format, Storage element, ScaleRule rule, bool te = false) {
  ir::TensorType type;
  type.format = format;
  type.element = element;
  type.rule = rule;
  type.nonfinite = te ? ir::NonFinite::te : ir::NonFinite::propagate;
  return type;
}

// One block: its scale, and its codes, which of 4 bits lie two to a byte.
void check_block(const ir::TensorType& type, std::optional<float> amax, const std::vector<float>& x,
                 const json& scale_code, const json& codes) {
  float largest = 0;
  for (const float value : x) {
    if (type.nonfinite == ir::NonFinite::propagate && !std::isfinite(value)) largest = std::nanf("");
    if (!std::isnan(value) && !std::isnan(largest)) largest = std::fmax(largest, std::fabs(value));
  }
  const NaiveFormat format(type, amax);
  const uint32_t scale = format.scale(largest);
  CHECK(scale == words(scale_code).at(0));
  const bool poisoned = format.is_poisoned(scale);
  const NaiveFormat::Factors factors =
      poisoned ? NaiveFormat::Factors{NAN, NAN} : format.factors(scale, largest, largest);
  CHECK((poisoned || factors.least == factors.most));
  const std::vector<uint32_t> bytes = words(codes);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t code = type.element == Storage::e2m1 ? bytes.at(i / 2) >> (i % 2 * 4) & 0xF : bytes.at(i);
    INFO(i << ": " << x[i]);
    CHECK(format.element(x[i], factors.least, std::nullopt) == code);
  }
}

}  // namespace

TEST_CASE("the naive MX formats give the exact vectors") {
  const std::map<std::string, ScaleRule> rules = {
      {"floor", ScaleRule::floor}, {"rceil", ScaleRule::up}, {"even", ScaleRule::even}};
  int compared = 0;
  for (const std::string file : {"numerics/mxfp8_blocks.json", "numerics/mxfp4_blocks.json"}) {
    const json cases = read_vectors(file, "cases");
    for (const json& one : cases) {
      for (const auto& [key, wanted] : one.items()) {
        if (!wanted.is_object()) continue;
        INFO(file << " " << one.at("name") << " " << key);
        const bool te = key.ends_with("_te");
        const size_t rule = key.find('_') + 1;
        const Storage element = *parse_storage(key.substr(0, rule - 1));
        const ir::Format format = element == Storage::e2m1 ? ir::Format::mxfp4 : ir::Format::mxfp8;
        check_block(
            type_of(format, element, rules.at(key.substr(rule, te ? key.size() - 3 - rule : std::string::npos)), te),
            std::nullopt, floats(one.at("x")), wanted.at("scale"), wanted.at("q"));
        ++compared;
      }
    }
  }
  CHECK(compared > 160);
}

TEST_CASE("the naive fp8 blocks give the exact vectors") {
  const std::map<std::string, ScaleRule> rules = {
      {"te_f32", ScaleRule::te_f32},         {"te_pow2", ScaleRule::up},
      {"torchao", ScaleRule::torchao},       {"vllm", ScaleRule::vllm},
      {"deepgemm_f32", ScaleRule::deepgemm}, {"propagate", ScaleRule::te_f32}};
  for (const std::string part : {"cases", "nonfinite_cases"}) {
    const json cases = read_vectors("numerics/fp8_per_token_1x128.json", part);
    for (const json& one : cases) {
      for (const auto& [key, wanted] : one.items()) {
        if (!rules.contains(key)) continue;
        INFO(one.at("name") << " " << key);
        const bool te = part == "nonfinite_cases" && key != "propagate";
        check_block(type_of(ir::Format::fp8_1x128, Storage::e4m3, rules.at(key), te), std::nullopt, floats(one.at("x")),
                    wanted.at("dequant_scale"), wanted.at("q"));
      }
    }
  }
  const json rows = read_vectors("numerics/fp8_per_token_1x128.json", "per_tensor_scale");
  for (const json& row : rows) {
    const float amax = floats(row.at(0)).at(0);
    if (std::isnan(amax)) continue;
    INFO(row);
    const Storage element = row.at(1) == 448 ? Storage::e4m3 : Storage::e5m2;
    CHECK(NaiveFormat(type_of(ir::Format::fp8_1x128, element, ScaleRule::te_f32, true)).scale(amax) ==
          words(row.at(3)).at(0));
    CHECK(NaiveFormat(type_of(ir::Format::fp8_1x128, element, ScaleRule::up, true)).scale(amax) ==
          words(row.at(5)).at(0));
  }
}

TEST_CASE("the naive NVFP4 gives the exact vectors") {
  const json cases = read_vectors("numerics/nvfp4_blocks.json", "cases");
  for (const json& one : cases) {
    for (const auto& [key, rule] : {std::pair{"te", ScaleRule::up}, std::pair{"torchao", ScaleRule::torchao}}) {
      if (!one.contains(key)) continue;
      INFO(one.at("name") << " " << key);
      check_block(type_of(ir::Format::nvfp4, Storage::e2m1, rule), floats(one.at("global_amax")).at(0),
                  floats(one.at("x")), one.at(key).at("scale"), one.at(key).at("q"));
    }
  }
}

TEST_CASE("naive stochastic rounding gives the exact vectors, from Philox") {
  const NaiveFormat format(type_of(ir::Format::mxfp4, Storage::e2m1, ScaleRule::up));
  const json rows = read_vectors("numerics/e2m1_stochastic.json", "rows");
  for (const json& row : rows) {
    INFO(row);
    CHECK(format.element(floats(row.at(0)).at(0), 1, row.at(1).get<int>()) == words(row.at(2)).at(0));
  }
  // Known answers of Random123.
  CHECK(philox_naively({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox_naively({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        std::array<uint32_t, 4>{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}
