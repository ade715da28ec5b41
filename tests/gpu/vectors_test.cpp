// The published conversion and MXFP8 vectors, bit for bit, through the kernel's own stores: numbers come in as a
// full-tile f32 input beside a product that is zero.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "jit/run.h"
#include "tests/gpu/support/kernels.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

constexpr int64_t columns = 64, block = 32;

nlohmann::json file_json(std::string_view path) { return nlohmann::json::parse(file_text(path)); }

std::string spec(const std::string& outputs) {
  return "kernel vectors {\n  dim E = 1, K = 64, N = 64\n  group M by E\n  group P = M align 128\n"
         "  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in r : f32[M, N]\n"
         "  v = select(gemm(x, w) == 0, r, 1)\n" +
         outputs + "}\n";
}

// Runs the spec on r[rows, 64] with these bits; x and w are zero.
Buffers run(const std::string& outputs, const std::vector<uint32_t>& bits) {
  const auto kernel = compile_spec(spec(outputs));
  const int64_t rows = static_cast<int64_t>(bits.size()) / columns;
  Buffers inputs;
  inputs["x"] = interpreter::make_tensor(Storage::bf16, {rows, 64});
  inputs["w"] = interpreter::make_tensor(Storage::bf16, {1, columns, 64});
  inputs["M.ends"] = tensor_of(Storage::i32, {1}, {static_cast<double>(rows)});
  HostTensor& r = inputs["r"] = interpreter::make_tensor(Storage::f32, {rows, columns});
  for (size_t i = 0; i < bits.size(); ++i) interpreter::store_code(r, static_cast<int64_t>(i), bits[i]);
  return must(jit::run_on_gpu(engine(), kernel, inputs, {}, gpu().device));
}

// Codes of 8 bits agree; the sign of a NaN means nothing.
bool same_code(Storage storage, uint32_t a, uint32_t b) {
  return a == b || (std::isnan(decode(storage, a)) && std::isnan(decode(storage, b)));
}

// A block, and what it becomes in one of the element types.
struct MxCase {
  std::string name;
  std::vector<uint32_t> bits;
  std::string element;
  uint32_t scale;
  std::vector<uint32_t> codes;
};

std::vector<MxCase> mx_cases() {
  std::vector<MxCase> cases;
  // Documents have names: a temporary would be gone before its first row is read.
  const auto numeric_blocks = file_json("tests/vectors/numerics/mxfp8_blocks.json");
  for (const auto& row : numeric_blocks["cases"]) {
    for (const std::string element : {"e4m3", "e5m2"}) {
      const auto& expected = row.at(element + "_rceil");
      cases.push_back(
          {row["name"], hex_words(row["x"]), element, hex_words(expected["scale"])[0], hex_words(expected["q"])});
    }
  }
  const auto reported_blocks = file_json("tests/vectors/mxfp8_blocks.json");
  for (const auto& row : reported_blocks["rows"]) {
    MxCase made{row["name"], {}, row["elem"], 0, hex_bytes(row["rceil"]["codes"])};
    for (const std::string word : row["x_f32"]) {
      made.bits.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
    }
    made.scale = hex_bytes(row["rceil"]["scale"].get<std::string>().substr(2))[0];
    cases.push_back(std::move(made));
  }
  const auto tile = file_json("tests/vectors/numerics/mxfp8_tile_row_col.json");
  const auto scales = hex_words(tile["row_scales"]);
  for (size_t i = 0; i < scales.size(); ++i) {
    MxCase made{"row " + std::to_string(i) + " of the tile", {}, "e4m3", scales[i], hex_words(tile["q_row"][i])};
    for (const uint32_t word : hex_words(tile["x_bf16_rows"][i])) made.bits.push_back(word << 16);
    cases.push_back(std::move(made));
  }
  return cases;
}

std::vector<MxCase> mx_cases(const std::string& element) {
  auto cases = mx_cases();
  std::erase_if(cases, [&](const MxCase& c) { return c.element != element; });
  REQUIRE(cases.size() > 20);
  return cases;
}

}  // namespace

TEST_CASE("conversions to e4m3, e5m2, bf16 and f16") {
  std::vector<uint32_t> bits, e4m3, e5m2;
  const auto conversions = file_json("tests/vectors/numerics/elem_conversions.json");
  for (const auto& row : conversions["rows"]) {
    bits.push_back(hex_words(row[0])[0]);
    e4m3.push_back(hex_words(row[1])[0]);
    e5m2.push_back(hex_words(row[2])[0]);
  }
  const size_t published = bits.size();
  const auto scalars = file_json("tests/vectors/scalar_e4m3.json");
  for (const auto& row : scalars["rows"]) {
    bits.push_back(static_cast<uint32_t>(std::stoul(row["x_f32"].get<std::string>(), nullptr, 16)));
    e4m3.push_back(hex_bytes(row["satfinite"].get<std::string>().substr(2))[0]);
  }
  while (bits.size() % columns != 0 || bits.size() < 128 * columns) {
    bits.push_back(static_cast<uint32_t>(bits.size()) * 15485863u);  // any others, for the types without vectors
  }
  const Buffers out =
      run("  out a : e4m3[M, N] = v\n  out b : e5m2[M, N] = v\n  out c : bf16[M, N] = v\n"
          "  out d : f16[M, N] = v\n  out f : f32[M, N] = v\n",
          bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double x = decode(Storage::f32, bits[i]);
    INFO("f32 bits " << std::hex << bits[i]);
    if (i < e4m3.size()) CHECK(same_code(Storage::e4m3, interpreter::load_code(out.at("a"), at), e4m3[i]));
    if (i < published) CHECK(same_code(Storage::e5m2, interpreter::load_code(out.at("b"), at), e5m2[i]));
    for (const auto& [name, tensor] : out) {
      const uint32_t want = encode(tensor.storage, x), have = interpreter::load_code(tensor, at);
      if (!same_code(tensor.storage, have, want)) {
        INFO(storage_name(tensor.storage) << " stored " << have << ", wanted " << want);
        CHECK(have == want);
      }
    }
  }
}

TEST_CASE("MXFP8 blocks along rows") {
  for (const std::string element : {"e4m3", "e5m2"}) {
    const auto cases = mx_cases(element);
    std::vector<uint32_t> bits;
    for (const MxCase& c : cases)
      for (int64_t i = 0; i < columns; ++i) bits.push_back(c.bits[static_cast<size_t>(i % block)]);
    const Buffers out = run("  out q : mxfp8(elem = " + element + ")[M, N] = v\n", bits);
    const Storage storage = *parse_storage(element);
    for (size_t row = 0; row < cases.size(); ++row)
      for (int64_t i = 0; i < columns; ++i) {
        const MxCase& c = cases[row];
        INFO(element << " " << c.name << ", column " << i);
        const auto at = static_cast<int64_t>(row) * columns + i;
        CHECK(interpreter::load_code(out.at("q.scale"), at / block) == c.scale);
        CHECK(same_code(storage, interpreter::load_code(out.at("q"), at), c.codes[static_cast<size_t>(i % block)]));
      }
  }
}

TEST_CASE("MXFP8 blocks along tokens, stored transposed") {
  for (const std::string element : {"e4m3", "e5m2"}) {
    const auto cases = mx_cases(element);
    const auto rows = static_cast<int64_t>(cases.size()) * block;
    std::vector<uint32_t> bits(static_cast<size_t>(rows * columns));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < columns; ++i) {
        bits[static_cast<size_t>(row * columns + i)] =
            cases[static_cast<size_t>(row / block)].bits[static_cast<size_t>(row % block)];
      }
    const Buffers out = run("  out t : mxfp8(elem = " + element + ")[N, P] = v\n", bits);
    const Storage storage = *parse_storage(element);
    const int64_t pitch = out.at("t").extents[1], scale_pitch = out.at("t.scale").extents[1];
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t row = 0; row < pitch; ++row) {
        if (row >= (rows + 127) / 128 * 128) break;  // behind the gap nothing is written
        const bool is_gap = row >= rows;
        const MxCase& c = cases[static_cast<size_t>(is_gap ? 0 : row / block)];
        INFO(element << " " << c.name << ", column " << i << ", row " << row);
        CHECK(interpreter::load_code(out.at("t.scale"), i * scale_pitch + row / block) == (is_gap ? 0 : c.scale));
        const uint32_t want = is_gap ? 0 : c.codes[static_cast<size_t>(row % block)];
        CHECK(same_code(storage, interpreter::load_code(out.at("t"), i * pitch + row), want));
      }
  }
}
