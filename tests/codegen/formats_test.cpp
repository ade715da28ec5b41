// The device's format policies (templates/formats) on the host: every vector of the numerics, byte for byte, and random
// bit patterns against definitions that share nothing with them: exact searches for elements, the interpreter for
// blocks.
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/numbers.h"
#include "compiler/codegen/format_policy.h"
#include "compiler/interpreter/quantiser.h"
#include "tests/codegen/host/pointwise.cuh"
#include "tests/support/catch.h"
#include "tests/support/vectors.h"

using namespace epifuse::formats;
using epifuse::e2m1;
using epifuse::e4m3;
using epifuse::e5m2;
using epifuse::u32;
using nlohmann::json;

namespace {

u32 hex(const json& text) { return static_cast<u32>(std::stoul(text.get<std::string>(), nullptr, 16)); }

std::vector<u32> words(const json& text) {
  std::istringstream in(text.get<std::string>());
  std::vector<u32> list;
  for (std::string word; in >> word;) list.push_back(static_cast<u32>(std::stoul(word, nullptr, 16)));
  return list;
}

void use_exact_conversions() {
  use_conversions(
      [](int storage, double value) { return epifuse::encode(static_cast<epifuse::Storage>(storage), value); },
      [](int storage, uint32_t code) { return epifuse::decode(static_cast<epifuse::Storage>(storage), code); });
}

struct Stored {
  u32 scale = 0;
  std::vector<u32> bytes;
  bool operator==(const Stored&) const = default;
};

template <class Format>
Stored store(const std::vector<u32>& x, const typename Format::Setup& setup = Format::setup()) {
  u32 largest = 0;
  for (const u32 bits : x) largest = std::max(largest, Format::magnitude(__uint_as_float(bits)));
  const Scale scale = Format::scale(largest, setup);
  Stored stored{scale.code, {}};
  for (const u32 bits : x)
    stored.bytes.push_back(narrow<typename Format::Element>(Format::scaled(__uint_as_float(bits), scale)));
  if (ElementLimits<typename Format::Element>::bits == 8) return stored;
  for (size_t i = 0; i < x.size() / 2; ++i) stored.bytes[i] = stored.bytes[2 * i] | stored.bytes[2 * i + 1] << 4;
  stored.bytes.resize(x.size() / 2);
  return stored;
}

}  // namespace

TEST_CASE("elements are narrowed as the vectors say") {
  use_exact_conversions();
  for (const json& row : epifuse::test::read_vectors("numerics/elem_conversions.json", "rows")) {
    const float x = __uint_as_float(hex(row[0]));
    INFO(row.dump());
    CHECK(narrow<e4m3>(x) == hex(row[1]));
    CHECK(narrow<e5m2>(x) == hex(row[2]));
    CHECK(narrow<e2m1>(x) == hex(row[3]));
    CHECK(narrow_2<e2m1>(x, 3.f) == (hex(row[3]) | 5u << 4));
    CHECK(narrow_4<e2m1>(1.f, 2.f, x, 3.f) == (0x42 | hex(row[3]) << 8 | 5u << 12));
  }
  for (const json& row : epifuse::test::read_vectors("numerics/e2m1_stochastic.json", "rows")) {
    INFO(row.dump());
    CHECK(narrow_stochastic<e2m1>(__uint_as_float(hex(row[0])), row[1].get<u32>()) == hex(row[2]));
  }
}

namespace {

// By the definition, in exact arithmetic: the values of the type in order, and the distance between those around x.
template <class Element>
u32 stochastic_by_search(epifuse::Storage storage, float x, u32 random) {
  using Limits = ElementLimits<Element>;
  if (std::isnan(x)) return Limits::nan_code;
  const double magnitude = std::min(std::fabs(static_cast<double>(x)), static_cast<double>(Limits::largest));
  u32 below = 0;
  while (below < Limits::largest_code && epifuse::decode(storage, below + 1) <= magnitude) ++below;
  // At the largest value there is no next one, and the step is that before it.
  const u32 from = std::min(below, Limits::largest_code - 1);
  const double step = epifuse::decode(storage, from + 1) - epifuse::decode(storage, from);
  const double moved = magnitude + random / 256.0 * step;
  u32 code = below;
  while (code < Limits::largest_code && epifuse::decode(storage, code + 1) <= moved) ++code;
  return code | (std::signbit(x) ? 1u << (Limits::bits - 1) : 0);
}

template <class Element>
void check_elements(epifuse::Storage storage, uint32_t seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    u32 bits = random();
    // Half of them where the type has its values.
    if (i % 2 == 0) bits = (bits & 0x807fffff) | (127 - 26 + random() % 44) << 23;
    const float x = __uint_as_float(bits);
    const u32 r = random() % 256;
    INFO(x << " " << r);
    REQUIRE(narrow<Element>(x) == (std::isnan(x) ? ElementLimits<Element>::nan_code : epifuse::encode(storage, x)));
    REQUIRE(narrow_stochastic<Element>(x, r) == stochastic_by_search<Element>(storage, x, r));
  }
}

}  // namespace

TEST_CASE("any bit pattern is narrowed, to the nearest and at random") {
  use_exact_conversions();
  check_elements<e4m3>(epifuse::Storage::e4m3, 1);
  check_elements<e5m2>(epifuse::Storage::e5m2, 2);
  check_elements<e2m1>(epifuse::Storage::e2m1, 3);
}

TEST_CASE("random bits are Philox4x32-10") {
  // The known answers of its authors.
  const auto words = [](const Words4& w) { return std::array<u32, 4>{w.word[0], w.word[1], w.word[2], w.word[3]}; };
  CHECK(words(philox_4x32_10({{0, 0, 0, 0}}, 0, 0)) ==
        std::array<u32, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr u32 ones = 0xffffffff;
  CHECK(words(philox_4x32_10({{ones, ones, ones, ones}}, ones, ones)) ==
        std::array<u32, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(philox_4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)) ==
        std::array<u32, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

  // Element (row, column) of a matrix has byte column % 4 of word row % 4.
  const epifuse::u64 seed[2] = {0x1234567890abcdef, 0x0fedcba987654321};
  const RandomSource source = RandomSource::load(seed, 3);
  const Words4 of = philox_4x32_10({{5, 2, 7 | 3u << 24, 0x87654321}}, 0x90abcdef, 0x12345678 ^ 0x0fedcba9);
  const RandomBytes bytes = source.bytes(9, 22, 7);
  CHECK(bytes.at(9, 22) == (of.word[1] >> 16 & 0xff));
  CHECK(bytes.at(8, 20) == (of.word[0] & 0xff));
  u32 eight[8];
  epifuse::pointwise::random_bits(source, 11, 40, 1, eight);
  for (int i = 0; i < 8; ++i) CHECK(eight[i] == source.bytes(11, 40 + i, 1).at(11, 40 + i));
}

namespace {

template <class Element, MxRule rule>
void check_mx_scales(const json& cell, u32 amax, size_t column) {
  std::istringstream in(cell.get<std::string>());
  std::vector<std::string> bytes;
  for (std::string byte; in >> byte;) bytes.push_back(byte);
  CHECK(MxFormat<Element, rule, NonFinite::propagate>::scale(amax, {}).code == hex(bytes.at(column)));
}

template <class Element>
void check_mx_rules(const json& cell, u32 amax) {
  check_mx_scales<Element, MxRule::floor>(cell, amax, 0);
  check_mx_scales<Element, MxRule::even>(cell, amax, 1);
  check_mx_scales<Element, MxRule::up>(cell, amax, 2);
  check_mx_scales<Element, MxRule::ceil>(cell, amax, 3);
}

template <class Format>
void check_block(const json& block, const char* key) {
  if (!block.contains(key)) return;
  INFO(block["name"] << " " << key);
  CHECK(store<Format>(words(block["x"])) == Stored{hex(block[key]["scale"]), words(block[key]["q"])});
}

}  // namespace

TEST_CASE("blocks of the MX types are the vectors', byte for byte") {
  use_exact_conversions();
  const json scales = epifuse::test::read_vectors("numerics/e8m0_scale.json");
  for (const json& row : scales["rows"]) {
    INFO(row.dump());
    check_mx_rules<e4m3>(row[1], hex(row[0]));
    check_mx_rules<e5m2>(row[2], hex(row[0]));
    check_mx_rules<e2m1>(row[3], hex(row[0]));
  }
  for (const json& block : epifuse::test::read_vectors("numerics/mxfp8_blocks.json", "cases")) {
    check_block<MxFormat<e4m3, MxRule::floor, NonFinite::propagate>>(block, "e4m3_floor");
    check_block<MxFormat<e4m3, MxRule::up, NonFinite::propagate>>(block, "e4m3_rceil");
    check_block<MxFormat<e4m3, MxRule::even, NonFinite::propagate>>(block, "e4m3_even");
    check_block<MxFormat<e5m2, MxRule::floor, NonFinite::propagate>>(block, "e5m2_floor");
    check_block<MxFormat<e5m2, MxRule::up, NonFinite::propagate>>(block, "e5m2_rceil");
    check_block<MxFormat<e4m3, MxRule::floor, NonFinite::te>>(block, "e4m3_floor_te");
    check_block<MxFormat<e4m3, MxRule::up, NonFinite::te>>(block, "e4m3_rceil_te");
    check_block<MxFormat<e5m2, MxRule::up, NonFinite::te>>(block, "e5m2_rceil_te");
  }
  for (const json& block : epifuse::test::read_vectors("numerics/mxfp4_blocks.json", "cases")) {
    check_block<MxFormat<e2m1, MxRule::floor, NonFinite::propagate>>(block, "e2m1_floor");
    check_block<MxFormat<e2m1, MxRule::up, NonFinite::propagate>>(block, "e2m1_rceil");
    check_block<MxFormat<e2m1, MxRule::even, NonFinite::propagate>>(block, "e2m1_even");
    check_block<MxFormat<e2m1, MxRule::up, NonFinite::te>>(block, "e2m1_rceil_te");
  }
}

namespace {

template <Fp8Rule rule>
void check_fp8(const json& row, const char* key) {
  INFO(row["name"] << " " << key);
  CHECK(store<Fp8Blocks<e4m3, rule, NonFinite::propagate>>(words(row["x"])) ==
        Stored{hex(row[key]["dequant_scale"]), words(row[key]["q"])});
}

template <class Format>
void check_fp8_scale(u32 amax, const json& factor, const json& stored) {
  const Scale scale = Format::scale(Format::magnitude(__uint_as_float(amax)), {});
  CHECK(__float_as_uint(scale.factor) == hex(factor));
  CHECK(scale.code == hex(stored));
}

}  // namespace

TEST_CASE("blocks of FP8 with f32 scales are the vectors', byte for byte") {
  use_exact_conversions();
  const json vectors = epifuse::test::read_vectors("numerics/fp8_per_token_1x128.json");
  for (const json& row : vectors["cases"]) {
    check_fp8<Fp8Rule::te_f32>(row, "te_f32");
    check_fp8<Fp8Rule::te_pow2>(row, "te_pow2");
    check_fp8<Fp8Rule::deepgemm>(row, "deepgemm_f32");
    check_fp8<Fp8Rule::torchao>(row, "torchao");
    check_fp8<Fp8Rule::vllm>(row, "vllm");
  }
  for (const json& row : vectors["nonfinite_cases"]) {
    INFO(row["name"]);
    const std::vector<u32> x = words(row["x"]);
    CHECK(store<Fp8Blocks<e4m3, Fp8Rule::te_f32, NonFinite::te>>(x) ==
          Stored{hex(row["te_f32"]["dequant_scale"]), words(row["te_f32"]["q"])});
    CHECK(store<Fp8Blocks<e4m3, Fp8Rule::te_f32, NonFinite::propagate>>(x) ==
          Stored{hex(row["propagate"]["dequant_scale"]), words(row["propagate"]["q"])});
  }
  for (const json& row : vectors["per_tensor_scale"]) {
    INFO(row.dump());
    const u32 amax = hex(row[0]);
    if (row[1] == 448) {
      check_fp8_scale<Fp8Blocks<e4m3, Fp8Rule::te_f32, NonFinite::te>>(amax, row[2], row[3]);
      check_fp8_scale<Fp8Blocks<e4m3, Fp8Rule::te_pow2, NonFinite::te>>(amax, row[4], row[5]);
    } else {
      check_fp8_scale<Fp8Blocks<e5m2, Fp8Rule::te_f32, NonFinite::te>>(amax, row[2], row[3]);
      check_fp8_scale<Fp8Blocks<e5m2, Fp8Rule::te_pow2, NonFinite::te>>(amax, row[4], row[5]);
    }
  }
}

TEST_CASE("blocks of NVFP4 are the vectors', byte for byte") {
  use_exact_conversions();
  using Te = Nvfp4<NvRule::up, NonFinite::propagate>;
  using Torchao = Nvfp4<NvRule::torchao, NonFinite::propagate>;
  const json vectors = epifuse::test::read_vectors("numerics/nvfp4_blocks.json");
  for (const json& block : vectors["cases"]) {
    INFO(block["name"]);
    const float amax = __uint_as_float(hex(block["global_amax"]));
    const std::vector<u32> x = words(block["x"]);
    const Te::Setup te = Te::setup(amax);
    CHECK(__float_as_uint(te.encode) == hex(block["te"]["S_enc_over_6"]));
    CHECK(__float_as_uint(te.decode) == hex(block["te"]["S_dec"]));
    CHECK(store<Te>(x, te) == Stored{hex(block["te"]["scale"]), words(block["te"]["q"])});
    if (block.contains("torchao"))
      CHECK(store<Torchao>(x, Torchao::setup(amax)) ==
            Stored{hex(block["torchao"]["scale"]), words(block["torchao"]["q"])});
  }
  // Without a maximum the tensor's scale is 1, which is what 2688 gives.
  CHECK(Te::setup().encode == Te::setup(2688.f).encode);
  CHECK(Te::setup().decode == 1.f);
  CHECK(Torchao::setup().encode == 1.f);
}

TEST_CASE("a rotation is the vectors'") {
  for (const json& row : epifuse::test::read_vectors("numerics/nvfp4_rht.json", "cases")) {
    INFO(row["name"]);
    const std::vector<u32> x = words(row["x"]), y = words(row["y_fp32_correctly_rounded"]);
    float rotated[16];
    double norm = 0;
    for (size_t i = 0; i < 16; ++i) {
      rotated[i] = __uint_as_float(x[i]);
      norm += double{rotated[i]} * rotated[i];
    }
    epifuse::pointwise::rotate_16<0xd7e8u>(rotated);
    // Four roundings of sums no larger than four times the norm.
    for (size_t i = 0; i < 16; ++i)
      CHECK(std::fabs(double{rotated[i]} - double{__uint_as_float(y[i])}) <= std::sqrt(norm) * 0x1p-22);
  }
}

namespace {

// Blocks of random bit patterns, around one exponent so that scales matter, and with what is no number now and then,
// against the interpreter.
template <class Format>
void check_against_interpreter(const std::string& format, epifuse::ir::ScaleRule rule, epifuse::Storage element,
                               epifuse::ir::NonFinite nonfinite, std::optional<float> maximum = std::nullopt) {
  epifuse::ir::TensorType type;
  type.format = *epifuse::ir::parse_format(format);
  type.rule = rule;
  type.element = element;
  type.nonfinite = nonfinite;
  if (maximum) type.amax_input = "a";
  INFO(epifuse::ir::print_type(type));
  const auto reference = epifuse::interpreter::make_quantiser(type);
  REQUIRE(reference);
  std::mt19937 random(17);
  typename Format::Setup setup = Format::setup();
  if constexpr (sizeof(setup) > 1)
    if (maximum) setup = Format::setup(*maximum);
  for (int round = 0; round < 300; ++round) {
    std::vector<u32> x(16);
    const u32 exponent = random() % 255;
    for (u32& bits : x) bits = (random() & 0x807fffff) | (exponent > 9 ? exponent - random() % 10 : exponent) << 23;
    if (round % 10 == 0) x[3] = 0x7fc00000;
    if (round % 15 == 0) x[5] = 0xff800000;
    if (round % 50 == 0) x.assign(16, 0x80000000);
    std::vector<double> values;
    for (const u32 bits : x) values.push_back(__uint_as_float(bits));
    const double amax = (*reference)->amax(values.data(), 16);
    const epifuse::interpreter::BlockScale scale = (*reference)->block_scale(amax, maximum);
    Stored expected{scale.code, {}};
    for (const double value : values) expected.bytes.push_back((*reference)->element(value, scale));
    Stored made = store<Format>(x, setup);
    if (ElementLimits<typename Format::Element>::bits == 4)
      for (size_t i = 0; i < 8; ++i) expected.bytes[i] = expected.bytes[2 * i] | expected.bytes[2 * i + 1] << 4;
    expected.bytes.resize(made.bytes.size());
    INFO("round " << round << " amax " << amax);
    REQUIRE(made.scale == expected.scale);
    REQUIRE(made.bytes == expected.bytes);
  }
}

template <class Element, NonFinite nonfinite>
void check_families(epifuse::Storage element, epifuse::ir::NonFinite policy) {
  using Rule = epifuse::ir::ScaleRule;
  const std::string mx = element == epifuse::Storage::e2m1 ? "mxfp4" : "mxfp8";
  check_against_interpreter<MxFormat<Element, MxRule::up, nonfinite>>(mx, Rule::up, element, policy);
  check_against_interpreter<MxFormat<Element, MxRule::floor, nonfinite>>(mx, Rule::floor, element, policy);
  check_against_interpreter<MxFormat<Element, MxRule::even, nonfinite>>(mx, Rule::even, element, policy);
  check_against_interpreter<MxFormat<Element, MxRule::ceil, nonfinite>>(mx, Rule::ceil, element, policy);
  if constexpr (ElementLimits<Element>::bits == 8) {
    const std::string fp8 = "fp8_1x128";
    check_against_interpreter<Fp8Blocks<Element, Fp8Rule::te_pow2, nonfinite>>(fp8, Rule::up, element, policy);
    check_against_interpreter<Fp8Blocks<Element, Fp8Rule::te_f32, nonfinite>>(fp8, Rule::te_f32, element, policy);
    check_against_interpreter<Fp8Blocks<Element, Fp8Rule::deepgemm, nonfinite>>(fp8, Rule::deepgemm, element, policy);
    check_against_interpreter<Fp8Blocks<Element, Fp8Rule::torchao, nonfinite>>(fp8, Rule::torchao, element, policy);
    check_against_interpreter<Fp8Blocks<Element, Fp8Rule::vllm, nonfinite>>(fp8, Rule::vllm, element, policy);
  } else {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const std::optional<float> maximum : {std::optional<float>(), std::optional(0.f), std::optional(3.5f),
                                               std::optional(1e-38f), std::optional(3e38f), std::optional(infinity)}) {
      check_against_interpreter<Nvfp4<NvRule::up, nonfinite>>("nvfp4", Rule::up, element, policy, maximum);
      check_against_interpreter<Nvfp4<NvRule::torchao, nonfinite>>("nvfp4", Rule::torchao, element, policy, maximum);
    }
  }
}

}  // namespace

TEST_CASE("scales and codes are the interpreter's, to the bit") {
  use_exact_conversions();
  using Policy = epifuse::ir::NonFinite;
  check_families<e4m3, NonFinite::propagate>(epifuse::Storage::e4m3, Policy::propagate);
  check_families<e4m3, NonFinite::te>(epifuse::Storage::e4m3, Policy::te);
  check_families<e5m2, NonFinite::propagate>(epifuse::Storage::e5m2, Policy::propagate);
  check_families<e5m2, NonFinite::te>(epifuse::Storage::e5m2, Policy::te);
  check_families<e2m1, NonFinite::propagate>(epifuse::Storage::e2m1, Policy::propagate);
  check_families<e2m1, NonFinite::te>(epifuse::Storage::e2m1, Policy::te);
}

TEST_CASE("a type is spelled as its policy in one place") {
  epifuse::ir::TensorType type;
  type.format = epifuse::ir::Format::fp8_1x128;
  type.element = epifuse::Storage::e5m2;
  type.nonfinite = epifuse::ir::NonFinite::te;
  CHECK(epifuse::codegen::format_policy(type) ==
        "formats::Fp8Blocks<e5m2, formats::Fp8Rule::te_pow2, formats::NonFinite::te>");
}
