// Published vectors of what no store can be made to do with chosen bits, asked of the device's formats in kernels of
// their own: conversions of single elements, stochastic rounding, and what maxima become on their way to a scale.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/gpu/support/blocks.h"
#include "tests/gpu/support/gpu.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using nlohmann::json;

namespace {

// One thread for each of `count` pairs of words; `body` makes them four words.
std::vector<int32_t> words_of_device(const std::string& body, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  const std::string source =
      "#include \"formats/fp8_blocks.cuh\"\n#include \"formats/mx.cuh\"\n#include \"formats/nvfp4.cuh\"\n"
      "using namespace epifuse;\nusing namespace epifuse::formats;\n"
      "struct Parameters {\n  const u32* in;\n  u32* out;\n  long long count;\n};\n"
      "extern \"C\" __global__ void words_entry(const __grid_constant__ Parameters p) {\n"
      "  for (long long i = threadIdx.x; i < p.count; i += 256) {\n"
      "    const u32 x = p.in[2 * i], y = p.in[2 * i + 1];\n    u32* out = p.out + 4 * i;\n" +
      body + "  }\n}\n";
  const IntExpr count = IntExpr::symbol("C");
  LaunchRecipe recipe;
  recipe.kernel = "words";
  recipe.tensors = {{"in", Storage::i32, TensorRole::input, {count, 2}, false, 4},
                    {"out", Storage::i32, TensorRole::output, {count, 4}, false, 4}};
  recipe.symbols = {{"C", SymbolKind::launch, 1}};
  RecipeStep step;
  step.entry = "words_entry";
  step.block = 256;
  step.grid = 1;
  step.parameter_bytes = 24;
  step.fields = {{"in", FieldKind::address, 0, 8, "in"},
                 {"out", FieldKind::address, 8, 8, "out"},
                 {"count", FieldKind::integer64, 16, 8, "", count}};
  recipe.steps = {step};
  const auto module = compile_module(source, recipe);
  std::vector<uint32_t> words;
  for (const auto& [x, y] : pairs) words.insert(words.end(), {x, y});
  const auto extent = static_cast<int64_t>(pairs.size());
  const auto in = upload(words), out = upload(std::vector<int32_t>(4 * pairs.size(), -1));
  runtime::Arguments arguments;
  arguments.tensors = {{"in", in.pointer(), {extent, 2}}, {"out", out.pointer(), {extent, 4}}};
  auto call = must(runtime::bind_call(module, arguments));
  must(call.launch(gpu().stream.get()));
  must(call.synchronize(gpu().stream.get()));
  return download<int32_t>(out);
}

}  // namespace

TEST_CASE("elements of every type by themselves, to the nearest and at random") {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<std::vector<uint32_t>> wanted;  // e4m3, e5m2, e2m1, stochastic e2m1, as far as known
  const json conversions = vectors("numerics/elem_conversions.json"), scalars = vectors("scalar_e2m1.json");
  for (const json& row : conversions["rows"]) {
    pairs.emplace_back(hex_number(row[0]), 0);
    wanted.push_back({hex_number(row[1]), hex_number(row[2]), hex_number(row[3])});
  }
  const size_t published = pairs.size();
  for (const json& row : scalars["rows"]) {
    pairs.emplace_back(hex_number(row["x_f32"]), 0);
    wanted.push_back({hex_number(row["satfinite"])});
  }
  const size_t nearest = pairs.size();
  const json stochastic = vectors("numerics/e2m1_stochastic.json");
  for (const json& row : stochastic["rows"]) {
    pairs.emplace_back(hex_number(row[0]), row[1].get<uint32_t>());
    wanted.push_back({hex_number(row[2])});
  }
  REQUIRE(pairs.size() > nearest + 200);
  const auto words = words_of_device(
      "    const float v = __uint_as_float(x);\n    out[0] = narrow<e4m3>(v);\n    out[1] = narrow<e5m2>(v);\n"
      "    out[2] = narrow<e2m1>(v);\n    out[3] = narrow_stochastic<e2m1>(v, y);\n",
      pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    INFO(fmt::format("{:x}, random bits {}", pairs[i].first, pairs[i].second));
    const auto word = [&](size_t k) { return static_cast<uint32_t>(words[4 * i + k]); };
    if (i < published) {
      for (size_t k = 0; k < 3; ++k) CHECK(word(k) == wanted[i][k]);
    } else {
      CHECK(word(i < nearest ? 2 : 3) == wanted[i][0]);
    }
  }
}

TEST_CASE("what a tensor's maximum and a block's become on their way to the scale of NVFP4") {
  const json file = vectors("numerics/nvfp4_blocks.json");
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const json& row : file["cases"]) {
    uint32_t amax = 0;
    for (const uint32_t bits : hex_words(row["x"])) amax = std::max(amax, bits & 0x7FFFFFFF);
    pairs.emplace_back(hex_number(row["global_amax"]), amax);
  }
  const auto te = words_of_device(
      "    using F = Nvfp4<NvRule::up, NonFinite::propagate>;\n    const auto s = F::setup(__uint_as_float(x));\n"
      "    const auto scale = F::scale(y, s);\n    out[0] = __float_as_uint(s.encode);\n"
      "    out[1] = __float_as_uint(s.decode);\n    out[2] = scale.code;\n"
      "    out[3] = __float_as_uint(scale.factor);\n",
      pairs);
  const auto torchao = words_of_device(
      "    using F = Nvfp4<NvRule::torchao, NonFinite::propagate>;\n    const auto s = F::setup(__uint_as_float(x));\n"
      "    const auto scale = F::scale(y, s);\n    out[0] = __float_as_uint(s.encode);\n    out[1] = scale.code;\n"
      "    out[2] = __float_as_uint(scale.factor);\n    out[3] = 0;\n",
      pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const json& row = file["cases"][i];
    INFO(row["name"]);
    const auto is = [&](const std::vector<int32_t>& words, size_t k, const json& hex) {
      const auto word = static_cast<uint32_t>(words[4 * i + k]);
      INFO("word " << k << std::hex << " is " << word << ", wanted " << hex);
      // A NaN is one, whatever its bits.
      CHECK((word == hex_number(hex) || (word >> 23 == 0xFF && hex_number(hex) >> 23 == 0xFF)));
    };
    is(te, 0, row["te"]["S_enc_over_6"]);
    is(te, 1, row["te"]["S_dec"]);
    is(te, 2, row["te"]["scale"]);
    if (row["te"].contains("inv")) is(te, 3, row["te"]["inv"]);
    if (!row.contains("torchao")) continue;
    is(torchao, 0, row["torchao"]["per_tensor_scale"]);
    is(torchao, 1, row["torchao"]["scale"]);
    is(torchao, 2, row["torchao"]["recip"]);
  }
}
