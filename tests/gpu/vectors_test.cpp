// The published vectors of elements and blocks, bit for bit, through the stores of both forms of a kernel: numbers come
// in as a full-tile f32 input beside a product that is zero.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "tests/gpu/support/blocks.h"
#include "tests/gpu/support/two_forms.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;
using nlohmann::json;

namespace {

constexpr int64_t columns = 64, mx_block = 32, fp8_block = 128, nvfp4_block = 16;

// Outputs of `v`, which is the input `r` exactly.
FormSpec exact(int64_t n, int align, const std::string& body, int64_t groups = 1) {
  return {fmt::format("kernel vectors {{\n  dim E = {}, K = 64, N = {}\n  group M by E\n  group P = M align {}\n"
                      "  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in r : f32[M, N]\n"
                      "  v = select(gemm(x, w) == 0, r, 1)\n{}}}\n",
                      groups, n, align, body),
          {}};
}

Buffers around(HostTensor r, std::vector<double> ends = {}) {
  const int64_t rows = r.extents[0], n = r.extents[1];
  if (ends.empty()) ends = {static_cast<double>(rows)};
  const auto groups = static_cast<int64_t>(ends.size());
  Buffers inputs;
  inputs["x"] = interpreter::make_tensor(Storage::bf16, {rows, 64});
  inputs["w"] = interpreter::make_tensor(Storage::bf16, {groups, n, 64});
  inputs["M.ends"] = tensor_of(Storage::i32, {groups}, ends);
  inputs["r"] = std::move(r);
  return inputs;
}

HostTensor f32_bits(const std::vector<uint32_t>& bits, int64_t n) {
  HostTensor r = interpreter::make_tensor(Storage::f32, {static_cast<int64_t>(bits.size()) / n, n});
  for (size_t i = 0; i < bits.size(); ++i) interpreter::store_code(r, static_cast<int64_t>(i), bits[i]);
  return r;
}

// One of each output, stored as rows and transposed.
std::string both_ways(const std::vector<std::pair<std::string, std::string>>& types, bool rows, bool turned) {
  std::string text;
  for (const auto& [key, type] : types) {
    if (rows) text += fmt::format("  out rows_{} : {}[M, N] = v\n", key, type);
    if (turned) text += fmt::format("  out cols_{} : {}[N, P] = v\n", key, type);
  }
  return text;
}

using Types = std::vector<std::pair<std::string, std::string>>;

const std::vector<std::string> elements = {"e4m3", "e5m2", "e2m1"};

Types mx_types(const std::string& element) {
  Types types;
  for (const std::string rule : {"floor", "even", "up", "ceil"})
    types.emplace_back(rule, element == "e2m1" ? fmt::format("mxfp4(rule = {})", rule)
                                               : fmt::format("mxfp8(elem = {}, rule = {})", element, rule));
  types.emplace_back(
      "te", element == "e2m1" ? "mxfp4(nonfinite = te)" : fmt::format("mxfp8(elem = {}, nonfinite = te)", element));
  return types;
}

const Types fp8_types = {{"up", "fp8_1x128"},
                         {"te_f32", "fp8_1x128(rule = te_f32)"},
                         {"deepgemm", "fp8_1x128(rule = deepgemm)"},
                         {"torchao", "fp8_1x128(rule = torchao)"},
                         {"vllm", "fp8_1x128(rule = vllm)"},
                         {"te", "fp8_1x128(rule = te_f32, nonfinite = te)"},
                         {"up_te", "fp8_1x128(nonfinite = te)"},
                         {"e5m2", "fp8_1x128(elem = e5m2, nonfinite = te)"},
                         {"e5m2_f32", "fp8_1x128(elem = e5m2, rule = te_f32, nonfinite = te)"}};

const Types nvfp4_types = {{"up", "nvfp4(amax = each)"},
                           {"torchao", "nvfp4(rule = torchao, amax = each)"},
                           {"te", "nvfp4(nonfinite = te, amax = each)"},
                           {"one", "nvfp4(amax = one)"}};

constexpr int nvfp4_groups = 25;  // a group for each block, since each has a tensor's maximum of its own

// Every kernel of this file, compiled at the first use of any.
const TwoForms& forms(const std::string& name) {
  static const auto all = [] {
    const std::string plain =
        "  out a : e4m3[M, N] = v\n  out b : e5m2[M, N] = v\n  out c : bf16[M, N] = v\n  out d : f16[M, N] = v\n"
        "  out f : f32[M, N] = v\n";
    std::vector<std::pair<std::string, FormSpec>> specs = {{"plain", exact(columns, 128, plain)}};
    for (const std::string& element : elements) {
      const std::string down = element == "e4m3" ? "  out down : mxfp8(along = P)[P, N] = v\n" : "";
      specs.emplace_back(element + " rows", exact(columns, 128, both_ways(mx_types(element), true, false)));
      specs.emplace_back(element + " transposed",
                         exact(columns, 128, both_ways(mx_types(element), false, true) + down));
    }
    specs.emplace_back("fp8 rows", exact(fp8_block, 128, both_ways(fp8_types, true, false)));
    specs.emplace_back("fp8 transposed", exact(fp8_block, 128, both_ways(fp8_types, false, true)));
    specs.emplace_back("nvfp4", exact(columns, nvfp4_block,
                                      "  in each : f32[E]\n  in one : f32\n" + both_ways(nvfp4_types, true, true) +
                                          "  out square : nvfp4_16x16(amax = each)[P, N] = v\n"
                                          "  out turned : nvfp4_16x16(amax = each)[N, P] = v\n",
                                      nvfp4_groups));
    specs.emplace_back("rotated",
                       exact(columns, nvfp4_block,
                             "  in each : f32[E]\n  down = hadamard(v, M, 0xD7E8)\n  across = hadamard(v, N, 0xD7E8)\n"
                             "  out f : f32[M, N] = down\n  out b : bf16[M, N] = down\n  out c : bf16[M, N] = across\n"
                             "  out cols_up : nvfp4(amax = each)[N, P] = cast(down, bf16)\n"
                             "  out rows_up : nvfp4(amax = each)[M, N] = cast(across, bf16)\n",
                             6));
    specs.emplace_back("weighed", exact(columns, 128,
                                        "  in p : f32[M]\n  out rows_up : mxfp8[M, N] = v * p\n"
                                        "  out cols_up : mxfp8[N, P] = v * p\n"));
    std::vector<FormSpec> texts;
    for (const auto& [ignored, spec] : specs) texts.push_back(spec);
    std::vector<TwoForms> compiled = compile_forms(texts);
    std::map<std::string, TwoForms> by_name;
    for (size_t i = 0; i < specs.size(); ++i) by_name.emplace(specs[i].first, std::move(compiled[i]));
    return by_name;
  }();
  return all.at(name);
}

// Codes of 8 bits agree; the sign of a NaN means nothing.
bool same_code(Storage storage, uint32_t a, uint32_t b) {
  return a == b || (std::isnan(decode(storage, a)) && std::isnan(decode(storage, b)));
}

bool is_finite(const std::vector<uint32_t>& bits) {
  return std::all_of(bits.begin(), bits.end(), [](uint32_t b) { return (b & 0x7FFFFFFF) < 0x7F800000; });
}

// A block whose largest magnitude this is, of which only the scale is known.
std::vector<uint32_t> block_with(uint32_t amax, int64_t size) {
  std::vector<uint32_t> bits(static_cast<size_t>(size));
  bits[static_cast<size_t>(amax % size)] = amax;
  return bits;
}

std::vector<uint32_t> mx_codes(const std::string& element, const json& hex) {
  return element == "e2m1" ? nibbles_of(hex_words(hex)) : hex_words(hex);
}

void add_numeric_blocks(const std::string& element, std::vector<BlockCase>& cases) {
  const json file = vectors(element == "e2m1" ? "numerics/mxfp4_blocks.json" : "numerics/mxfp8_blocks.json");
  for (const json& row : file["cases"]) {
    BlockCase made{row["name"], hex_words(row["x"]), {}};
    for (const auto& [key, name] : {std::pair{"floor", "floor"}, {"even", "even"}, {"up", "rceil"}, {"te", "rceil_te"}})
      if (const auto found = row.find(element + "_" + name); found != row.end())
        made.expected[key] = {hex_words((*found)["scale"])[0], mx_codes(element, (*found)["q"])};
    // Blocks of numbers do not depend on what is done with others.
    if (is_finite(made.bits)) made.expected["te"] = made.expected.at("up");
    REQUIRE(made.expected.contains("te"));
    cases.push_back(std::move(made));
  }
}

void add_reported_blocks(const std::string& element, std::vector<BlockCase>& cases) {
  const json file = vectors("mxfp8_blocks.json");
  for (const json& row : file["rows"]) {
    if (row["elem"] != element) continue;
    BlockCase made{row["name"], {}, {}};
    for (const json& word : row["x_f32"]) made.bits.push_back(hex_number(word));
    for (const auto& [key, name] : {std::pair{"floor", "floor"}, {"up", "rceil"}, {"te", "rceil"}})
      made.expected[key] = {hex_number(row[name]["scale"]), hex_bytes(row[name]["codes"])};
    cases.push_back(std::move(made));
  }
}

void add_scales(const std::string& element, std::vector<BlockCase>& cases) {
  const json file = vectors("numerics/e8m0_scale.json");
  for (const json& row : file["rows"]) {
    const uint32_t amax = hex_number(row[0]);
    const auto column = static_cast<size_t>(std::find(elements.begin(), elements.end(), element) - elements.begin());
    const auto bytes = hex_words(row[1 + column]);
    BlockCase made{"amax " + row[0].get<std::string>(), block_with(amax, mx_block), {}};
    const char* const keys[] = {"floor", "even", "up", "ceil"};
    for (size_t i = 0; i < 4; ++i) made.expected[keys[i]] = {bytes[i], {}};
    made.expected["te"] = {bytes[2], {}};
    cases.push_back(std::move(made));
  }
}

// Powers of two above and below a number: of the largest exponent 2 of e2m1, so 2 below the conversion to e8m0. And
// each power of two with its reciprocal: 4 of them under rule floor, and the code of 4, which the reciprocal gives.
void add_conversions_to_e8m0(std::vector<BlockCase>& cases) {
  const auto below = [](uint32_t byte) { return byte < 2 ? 0 : byte - 2; };
  const json conversions = vectors("numerics/e8m0_cvt.json");
  for (const json& row : conversions["rows"]) {
    const uint32_t x = hex_number(row[0]), magnitude = x & 0x7FFFFFFF;
    BlockCase made{"to e8m0 " + row[0].get<std::string>(), block_with(x, mx_block), {}};
    if (magnitude < 0x7F800000) {
      made.expected["ceil"] = {below(hex_number(row[2])), {}};
      made.expected["floor"] = {below(hex_number(row[4])), {}};
    } else {
      for (const char* rule : {"floor", "even", "up", "ceil"}) made.expected[rule] = {hex_number(row[2]), {}};
      if (magnitude == 0x7F800000) made.expected["te"] = {hex_number(row[1]), {}};
    }
    cases.push_back(std::move(made));
  }
  const json powers = vectors("e8m0_decode.json");
  for (const json& row : powers["rows"]) {
    if (row["value_f32"] == "NaN" || hex_number(row["code"]) >= 0xFD) continue;  // four times it is no number
    const double value = f32_of_bits(row["value_f32"]);
    BlockCase made{"power " + row["code"].get<std::string>(), {}, {}};
    made.bits.assign(mx_block, encode(Storage::f32, 4 * value));
    made.expected["floor"] = {hex_number(row["code"]), std::vector<uint32_t>(mx_block, 6)};
    cases.push_back(std::move(made));
  }
}

std::vector<BlockCase> mx_cases(const std::string& element) {
  std::vector<BlockCase> cases;
  add_numeric_blocks(element, cases);
  add_reported_blocks(element, cases);
  add_scales(element, cases);
  if (element == "e2m1") add_conversions_to_e8m0(cases);
  REQUIRE(cases.size() > 290);
  return cases;
}

}  // namespace

TEST_CASE("conversions to e4m3, e5m2, bf16 and f16") {
  std::vector<uint32_t> bits, e4m3, e5m2;
  const json conversions = vectors("numerics/elem_conversions.json");
  for (const json& row : conversions["rows"]) {
    bits.push_back(hex_number(row[0]));
    e4m3.push_back(hex_number(row[1]));
    e5m2.push_back(hex_number(row[2]));
  }
  const json scalars = vectors("scalar_e4m3.json");
  for (const json& row : scalars["rows"]) {
    bits.push_back(hex_number(row["x_f32"]));
    e4m3.push_back(hex_number(row["satfinite"]));
  }
  while (bits.size() % columns != 0 || bits.size() < 128 * columns) {
    bits.push_back(static_cast<uint32_t>(bits.size()) * 15485863u);  // any others, for the types without vectors
  }
  forms("plain").run(around(f32_bits(bits, columns)), [&](const Buffers& out) {
    for (size_t i = 0; i < bits.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const double x = decode(Storage::f32, bits[i]);
      INFO("f32 bits " << std::hex << bits[i]);
      if (i < e4m3.size()) CHECK(same_code(Storage::e4m3, interpreter::load_code(out.at("a"), at), e4m3[i]));
      if (i < e5m2.size()) CHECK(same_code(Storage::e5m2, interpreter::load_code(out.at("b"), at), e5m2[i]));
      for (const auto& [name, tensor] : out) {
        const uint32_t want = encode(tensor.storage, x), have = interpreter::load_code(tensor, at);
        if (!same_code(tensor.storage, have, want)) {
          INFO(storage_name(tensor.storage) << " stored " << have << ", wanted " << want);
          CHECK(have == want);
        }
      }
    }
  });
}

TEST_CASE("blocks of the MX types under every rule, as rows and transposed") {
  for (const std::string& element : elements) {
    INFO(element);
    const auto cases = mx_cases(element);
    forms(element + " rows").run(around(rows_of(cases, columns)), [&](const Buffers& out) {
      for (const auto& [key, type] : mx_types(element)) check_blocks(out, "rows_" + key, Placed::rows, cases, key);
    });
    forms(element + " transposed").run(around(columns_of(cases, columns)), [&](const Buffers& out) {
      for (const auto& [key, type] : mx_types(element))
        check_blocks(out, "cols_" + key, Placed::transposed, cases, key);
      if (element == "e4m3") check_blocks(out, "down", Placed::down, cases, "up");
    });
  }
}

TEST_CASE("one tile, quantised along its rows and down its columns") {
  const json tile = vectors("numerics/mxfp8_tile_row_col.json");
  std::vector<uint32_t> bits;
  for (const json& row : tile["x_bf16_rows"]) {
    const auto words = hex_words(row);
    for (int64_t i = 0; i < columns; ++i) bits.push_back(words[static_cast<size_t>(i % mx_block)] << 16);
  }
  const auto row_scales = hex_words(tile["row_scales"]), column_scales = hex_words(tile["col_scales"]);
  const auto code = [](const Buffers& out, const char* name, int64_t at) {
    return interpreter::load_code(out.at(name), at);
  };
  forms("e4m3 rows").run(around(f32_bits(bits, columns)), [&](const Buffers& out) {
    for (int64_t r = 0; r < mx_block; ++r) {
      const auto along = hex_words(tile["q_row"][static_cast<size_t>(r)]);
      for (int64_t c = 0; c < columns; ++c) {
        INFO("row " << r << ", column " << c);
        CHECK(code(out, "rows_up.scale", r * 2 + c / mx_block) == row_scales[static_cast<size_t>(r)]);
        CHECK(code(out, "rows_up", r * columns + c) == along[static_cast<size_t>(c % mx_block)]);
      }
    }
  });
  forms("e4m3 transposed").run(around(f32_bits(bits, columns)), [&](const Buffers& out) {
    const int64_t pitch = out.at("cols_up").extents[1], scale_pitch = out.at("cols_up.scale").extents[1];
    for (int64_t c = 0; c < columns; ++c) {
      const auto column = static_cast<size_t>(c % mx_block);
      const auto turned = hex_words(tile["q_col_T"][column]);
      CHECK(code(out, "down.scale", c) == column_scales[column]);
      CHECK(code(out, "cols_up.scale", c * scale_pitch) == column_scales[column]);
      for (int64_t r = 0; r < mx_block; ++r) {
        INFO("row " << r << ", column " << c);
        const auto row = static_cast<size_t>(r);
        CHECK(code(out, "down", r * columns + c) == hex_words(tile["q_col"][row])[column]);
        CHECK(code(out, "cols_up", c * pitch + r) == turned[row]);
      }
      // The gap of the group.
      for (int64_t r = mx_block; r < std::min<int64_t>(128, pitch); ++r) {
        CHECK(code(out, "cols_up", c * pitch + r) == 0);
        CHECK(code(out, "cols_up.scale", c * scale_pitch + r / mx_block) == 0);
      }
    }
  });
}

TEST_CASE("a probability multiplies before the quantiser") {
  const json v = vectors("prob_before_quant.json");
  BlockCase made{"weighed", {}, {}};
  for (const json& x : v["x"]) made.bits.push_back(encode(Storage::f32, x));
  made.expected["up"] = {hex_number(v["scale_then_quant"]["scale"]), hex_bytes(v["scale_then_quant"]["codes"])};
  Buffers rows = around(rows_of({made}, columns)), down = around(columns_of({made}, columns));
  rows["p"] = tensor_of(Storage::f32, {1}, {v["prob"]});
  down["p"] = tensor_of(Storage::f32, {32}, std::vector<double>(32, v["prob"]));
  const TwoForms& kernel = forms("weighed");
  kernel.run(rows, [&](const Buffers& out) { check_blocks(out, "rows_up", Placed::rows, {made}, "up"); });
  kernel.run(down, [&](const Buffers& out) { check_blocks(out, "cols_up", Placed::transposed, {made}, "up"); });
}

namespace {

std::vector<BlockCase> fp8_cases() {
  std::vector<BlockCase> cases;
  const json file = vectors("numerics/fp8_per_token_1x128.json");
  const auto stored = [](const json& of) { return StoredBlock{hex_number(of["dequant_scale"]), hex_words(of["q"])}; };
  for (const json& row : file["cases"]) {
    BlockCase made{row["name"], hex_words(row["x"]), {}};
    for (const auto& [key, name] : {std::pair{"up", "te_pow2"},
                                    {"up_te", "te_pow2"},
                                    {"te_f32", "te_f32"},
                                    {"te", "te_f32"},
                                    {"deepgemm", "deepgemm_f32"},
                                    {"torchao", "torchao"},
                                    {"vllm", "vllm"}})
      made.expected[key] = stored(row[name]);
    cases.push_back(std::move(made));
  }
  for (const json& row : file["nonfinite_cases"]) {
    BlockCase made{row["name"], hex_words(row["x"]), {{"te", stored(row["te_f32"])}}};
    for (const char* rule : {"up", "te_f32", "deepgemm", "torchao", "vllm"})
      made.expected[rule] = stored(row["propagate"]);
    cases.push_back(std::move(made));
  }
  for (const json& row : file["per_tensor_scale"]) {
    const uint32_t amax = hex_number(row[0]);
    BlockCase made{"amax " + row[0].get<std::string>(), block_with(amax, fp8_block), {}};
    const StoredBlock f32{hex_number(row[3]), {}}, power{hex_number(row[5]), {}};
    if (row[1] == 448) {
      made.expected = {{"te", f32}, {"up_te", power}};
      if (amax < 0x7F800000) made.expected.insert({{"te_f32", f32}, {"up", power}});
    } else {
      made.expected = {{"e5m2_f32", f32}, {"e5m2", power}};
    }
    cases.push_back(std::move(made));
  }
  REQUIRE(cases.size() > 30);
  return cases;
}

}  // namespace

TEST_CASE("blocks of 128 under every rule that has a name, as rows and transposed") {
  const auto cases = fp8_cases();
  forms("fp8 rows").run(around(rows_of(cases, fp8_block)), [&](const Buffers& out) {
    for (const auto& [key, type] : fp8_types) check_blocks(out, "rows_" + key, Placed::rows, cases, key);
  });
  forms("fp8 transposed").run(around(columns_of(cases, fp8_block)), [&](const Buffers& out) {
    for (const auto& [key, type] : fp8_types) check_blocks(out, "cols_" + key, Placed::transposed, cases, key);
  });
}

namespace {

struct NvCase {
  BlockCase block;
  uint32_t amax;  // of the tensor
};

std::vector<NvCase> nvfp4_cases() {
  std::vector<NvCase> cases;
  const json numeric = vectors("numerics/nvfp4_blocks.json"), reported = vectors("nvfp4_blocks.json");
  const auto stored = [](const json& of) {
    return StoredBlock{hex_number(of["scale"]), nibbles_of(hex_words(of["q"]))};
  };
  for (const json& row : numeric["cases"]) {
    BlockCase made{row["name"], hex_words(row["x"]), {{"up", stored(row["te"])}, {"one", stored(row["te"])}}};
    if (row.contains("torchao")) made.expected["torchao"] = stored(row["torchao"]);
    if (is_finite(made.bits)) made.expected["te"] = made.expected["up"];
    cases.push_back({std::move(made), hex_number(row["global_amax"])});
  }
  for (const json& row : reported["rows"]) {
    BlockCase made{row["name"], {}, {}};
    for (const json& x : row["x"]) made.bits.push_back(encode(Storage::f32, x));
    REQUIRE(row["order_insensitive"] == true);
    const StoredBlock block{hex_number(row["scale_e4m3"]), nibbles_of(hex_bytes(row["packed_low_nibble_first"]))};
    made.expected = {{"up", block}, {"te", block}, {"one", block}};
    cases.push_back({std::move(made), encode(Storage::f32, row["amax_tensor"])});
  }
  REQUIRE(cases.size() <= nvfp4_groups);
  return cases;
}

// Each group is 16 rows; groups behind the last case have none.
std::vector<double> ends_of_16(size_t cases, size_t groups) {
  std::vector<double> ends;
  for (size_t e = 0; e < groups; ++e) ends.push_back(static_cast<double>(nvfp4_block * std::min(e + 1, cases)));
  return ends;
}

// Each 16 times, so that rows are aligned as blocks of 16 rows are.
std::vector<BlockCase> repeated(const std::vector<BlockCase>& cases) {
  std::vector<BlockCase> all;
  for (const BlockCase& one : cases) all.insert(all.end(), nvfp4_block, one);
  return all;
}

Buffers around_16(HostTensor r, const std::vector<uint32_t>& amax, size_t groups, uint32_t one) {
  Buffers inputs = around(std::move(r), ends_of_16(amax.size(), groups));
  HostTensor& each = inputs["each"] = interpreter::make_tensor(Storage::f32, {static_cast<int64_t>(groups)});
  for (size_t e = 0; e < amax.size(); ++e) interpreter::store_code(each, static_cast<int64_t>(e), amax[e]);
  interpreter::store_code(inputs["one"] = interpreter::make_tensor(Storage::f32, {}), 0, one);
  return inputs;
}

}  // namespace

TEST_CASE("blocks of NVFP4 under each tensor's maximum, as rows and transposed") {
  std::vector<BlockCase> cases;
  std::vector<uint32_t> amax;
  for (NvCase& one : nvfp4_cases()) {
    cases.push_back(std::move(one.block));
    amax.push_back(one.amax);
  }
  const TwoForms& kernel = forms("nvfp4");
  const auto rows = repeated(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    // The maximum of the whole tensor is that of one case after the other; those of groups stay.
    const auto only = [&](const std::vector<BlockCase>& all, const std::string& key) {
      if (key != "one") return all;
      std::vector<BlockCase> some = all;
      for (size_t k = 0; k < all.size(); ++k)
        if (k / (all.size() / cases.size()) != i) some[k].expected.clear();
      return some;
    };
    kernel.run(around_16(rows_of(rows, columns), amax, nvfp4_groups, amax[i]), [&](const Buffers& out) {
      for (const auto& [key, type] : nvfp4_types)
        if (i == 0 || key == "one") check_blocks(out, "rows_" + key, Placed::rows, only(rows, key), key);
    });
    kernel.run(around_16(columns_of(cases, columns), amax, nvfp4_groups, amax[i]), [&](const Buffers& out) {
      for (const auto& [key, type] : nvfp4_types)
        if (i == 0 || key == "one") check_blocks(out, "cols_" + key, Placed::transposed, only(cases, key), key);
    });
  }
}

TEST_CASE("a square of NVFP4 has one scale, and its transpose the same codes") {
  const json file = vectors("numerics/nvfp4_blocks.json");
  const json& square = file["block_16x16"];
  std::vector<uint32_t> bits;
  std::vector<std::vector<uint32_t>> rows, turned;
  for (const json& row : square["x_bf16_rows"]) {
    const auto words = hex_words(row);
    for (int64_t i = 0; i < columns; ++i) bits.push_back(words[static_cast<size_t>(i % nvfp4_block)] << 16);
  }
  for (const json& row : square["q_row"]) rows.push_back(nibbles_of(hex_words(row)));
  for (const json& row : square["q_col_T"]) turned.push_back(nibbles_of(hex_words(row)));
  const uint32_t amax = hex_number(square["global_amax"]), scale = hex_number(square["scale"]);
  forms("nvfp4").run(around_16(f32_bits(bits, columns), {amax}, nvfp4_groups, amax), [&](const Buffers& out) {
    const int64_t pitch = out.at("turned").extents[1], scale_pitch = out.at("turned.scale").extents[1];
    for (int64_t r = 0; r < nvfp4_block; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        INFO("row " << r << ", column " << c);
        const auto row = static_cast<size_t>(r), column = static_cast<size_t>(c % nvfp4_block);
        CHECK(interpreter::load_code(out.at("square.scale"), c / nvfp4_block) == scale);
        CHECK(interpreter::load_code(out.at("square"), r * columns + c) == rows[row][column]);
        CHECK(interpreter::load_code(out.at("turned.scale"), c / nvfp4_block * scale_pitch) == scale);
        CHECK(interpreter::load_code(out.at("turned"), c * pitch + r) == turned[column][row]);
      }
    }
  });
}

TEST_CASE("a rotation down columns and along rows, rounded to bf16, then quantised") {
  const json file = vectors("numerics/nvfp4_rht.json");
  std::vector<BlockCase> cases;
  std::vector<uint32_t> amax;
  for (const json& row : file["cases"]) {
    const json& stored = row["nvfp4_te_with_that_amax"];
    cases.push_back({row["name"],
                     hex_words(row["x"]),
                     {{"up", {hex_number(stored["scale"]), nibbles_of(hex_words(stored["q"]))}}}});
    amax.push_back(hex_number(row["amax_of_y_bf16"]));
  }
  REQUIRE(cases.size() == 6);
  const TwoForms& kernel = forms("rotated");
  const auto wanted = [&](size_t i, const char* key) { return hex_words(file["cases"][i][key]); };
  kernel.run(around_16(columns_of(cases, columns), amax, 6, 0), [&](const Buffers& out) {
    check_blocks(out, "cols_up", Placed::transposed, cases, "up");
    for (size_t i = 0; i < cases.size(); ++i) {
      INFO(cases[i].name);
      double norm = 0;
      for (const uint32_t bits : cases[i].bits) norm = std::hypot(norm, decode(Storage::f32, bits));
      for (size_t c = 0; c < 16; ++c) {
        const auto at = static_cast<int64_t>(i * 16 + c) * columns;
        const double exact = decode(Storage::f32, wanted(i, "y_fp32_correctly_rounded")[c]);
        CHECK(std::fabs(interpreter::load_one(out.at("f"), at) - exact) <= norm * 0x1p-22);  // four roundings
        CHECK(interpreter::load_code(out.at("b"), at) == wanted(i, "y_bf16")[c]);
      }
    }
  });
  const auto rows = repeated(cases);
  kernel.run(around_16(rows_of(rows, columns), amax, 6, 0), [&](const Buffers& out) {
    check_blocks(out, "rows_up", Placed::rows, rows, "up");
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t c = 0; c < 16; ++c)
        CHECK(interpreter::load_code(out.at("c"), static_cast<int64_t>(i * columns + c)) ==
              wanted(i / nvfp4_block, "y_bf16")[c]);
  });
}
