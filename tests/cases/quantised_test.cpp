// Cases of scales, of their layouts, and of rounding, from the text of a spec to the bytes that are stored: on the
// interpreter in one program, through the kernels on a GPU in another (spec_runner.h). README.md says what each is
// about. Each runs in a kernel without gemm and behind a gemm, whose stores are different code.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cases/spec_runner.h"
#include "tests/support/catch.h"
#include "tests/support/host_data.h"

namespace epifuse {
namespace {

using interpreter::Buffers;
using interpreter::load_code;
using interpreter::load_one;
using namespace test;

nlohmann::json vectors(const std::string& name) { return nlohmann::json::parse(vectors_text(name)); }

// A kernel that stores r, [M, N] in groups of these sizes, as the statements say.
struct Quantised {
  std::vector<int64_t> counts;
  int64_t columns;
  bool with_gemm;

  int64_t rows() const {
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    return sum;
  }

  std::string spec(const std::string& statements, const std::string& value = "r") const {
    return fmt::format(
        "kernel quantised {{\n  dim E = {}, K = 8, N = {}\n  group M by E counts\n  group P = M align 128\n"
        "  in r : f32[M, N]\n{}  v = {}\n{}}}\n",
        counts.size(), columns, with_gemm ? "  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n" : "",
        with_gemm ? "select(gemm(x, w) == 0, " + value + ", 1)" : value, statements);
  }

  Buffers inputs(const std::function<double(int64_t)>& r) const {
    const auto groups = static_cast<int64_t>(counts.size());
    Buffers buffers = {{"r", tensor_by(Storage::f32, {rows(), columns}, r)},
                       {"M.counts", tensor_of(Storage::i32, {groups}, {counts.begin(), counts.end()})}};
    if (!with_gemm) return buffers;
    buffers["x"] = interpreter::make_tensor(Storage::bf16, {rows(), 8});
    buffers["w"] = interpreter::make_tensor(Storage::bf16, {groups, columns, 8});
    return buffers;
  }
};

std::vector<Quantised> both(const std::vector<int64_t>& counts, int64_t columns) {
  return {{counts, columns, false}, {counts, columns, true}};
}

// Where a scale of blocked_128x4 lies, from the page of formats.
int64_t offset_128x4(int64_t row, int64_t block, int64_t blocks) {
  return ((row / 128) * ((blocks + 3) / 4) + block / 4) * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + block % 4;
}

double wave(int64_t i) {
  return std::ldexp(static_cast<double>((i * 7919) % 255 - 127), static_cast<int>(i / 32 % 9) - 4);
}

int64_t bytes_of(const Buffers& out, const std::string& name) {
  return static_cast<int64_t>(out.at(name).bytes.size());
}

// Rows of blocks as f32 numbers, with the names of what they are.
struct Blocks {
  std::vector<std::string> names;
  std::vector<double> values;  // one block behind the other
};

Quantised rows_of_blocks(const Blocks& blocks, int64_t block, bool with_gemm) {
  return {{static_cast<int64_t>(blocks.values.size()) / block}, block, with_gemm};
}

}  // namespace

TEST_CASE("B18: every byte of every tile of scales is written, and what is no scale is zero") {
  for (const Quantised& kernel : both({33, 95}, 96)) {
    INFO(kernel.with_gemm);
    const Buffers out = run_spec(kernel.spec("  out y : mxfp8(layout = blocked_128x4)[M, N] = v\n"
                                             "  out c : mxfp8(layout = blocked_128x4, along = P)[P, N] = v\n"
                                             "  out t : mxfp8(layout = blocked_128x4)[N, P] = v\n"),
                                 kernel.inputs(wave));
    // Rows in groups: two tile rows, one for each expert, of which three of four columns and 33 or 95 rows are scales.
    const interpreter::HostTensor& scale = out.at("y.scale");
    REQUIRE(bytes_of(out, "y.scale") >= 1024);
    std::set<int64_t> scales;
    for (int64_t e = 0; e < 2; ++e)
      for (int64_t row = 0; row < (e == 0 ? 33 : 95); ++row)
        for (int64_t block = 0; block < 3; ++block) scales.insert(e * 512 + offset_128x4(row, block, 3));
    int64_t wrong = 0;
    for (int64_t i = 0; i < 1024; ++i) wrong += scales.contains(i) ? scale.bytes[i] == 0xFF : scale.bytes[i] != 0;
    for (int64_t i = 1024; i < bytes_of(out, "y.scale"); ++i) wrong += scale.bytes[i] != 0xFF;  // no group's tile
    CHECK(wrong == 0);
    // Tokens along the blocks: a matrix of 96 rows and 4 blocks for each expert, of which 2 and 3 hold tokens.
    for (const char* name : {"c.scale", "t.scale"}) {
      INFO(name);
      const interpreter::HostTensor& turned = out.at(name);
      REQUIRE(bytes_of(out, name) >= 1024);
      int64_t bad = 0;
      for (int64_t e = 0; e < 2; ++e)
        for (int64_t row = 0; row < 128; ++row)
          for (int64_t block = 0; block < 4; ++block) {
            const uint8_t byte = turned.bytes[static_cast<size_t>(e * 512 + offset_128x4(row, block, 4))];
            const bool is_scale = row < 96 && block < (e == 0 ? 2 : 3);
            bad += is_scale ? byte == 0xFF || byte == 0 : byte != 0;
          }
      CHECK(bad == 0);
    }
    CHECK((out.at("c.scale").bytes == out.at("t.scale").bytes));
  }
}

TEST_CASE("B21 B23: scales lie where the padded grid has them: offsets and sizes of the vectors") {
  const auto document = vectors("swizzle_128x4.json");
  int64_t checked = 0;
  for (const auto& row : document["rows"]) {
    const int64_t rows = row["rows"], blocks = row["scale_cols"];
    const std::string name = row["name"];
    const bool nvfp4 = name.find("nvfp4") != std::string::npos;
    for (const Quantised& kernel : both({rows}, blocks * (nvfp4 ? 16 : 32))) {
      INFO(name << " " << kernel.with_gemm);
      const std::string type = nvfp4 ? "nvfp4" : "mxfp8";
      // A number for each block, so that each scale has a code of its own kind.
      const auto amax = [&](int64_t i) {
        const int64_t m = i / kernel.columns, k = i % kernel.columns / (nvfp4 ? 16 : 32);
        return nvfp4 ? 6.0 * static_cast<double>(8 + (m * 3 + k) % 8) / 8 : std::ldexp(448.0, (m * 5 + k) % 100 - 50);
      };
      const Buffers out = run_spec(
          kernel.spec("  out a : " + type + "(layout = blocked_128x4)[M, N] = v\n  out b : " + type + "[M, N] = v\n"),
          kernel.inputs(amax));
      REQUIRE(bytes_of(out, "a.scale") >= row["bytes"].get<int64_t>());
      for (const auto& place : row["offsets"]) {
        const int64_t r = place["r"], c = place["c"];
        CHECK(offset_128x4(r, c, blocks) == place["off"].get<int64_t>());
        CHECK(load_code(out.at("a.scale"), place["off"]) == load_code(out.at("b.scale"), r * blocks + c));
        ++checked;
      }
      int64_t wrong = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < blocks; ++c)
          wrong +=
              load_code(out.at("a.scale"), offset_128x4(r, c, blocks)) != load_code(out.at("b.scale"), r * blocks + c);
      CHECK(wrong == 0);
    }
  }
  CHECK(checked >= 40);
}

TEST_CASE("B22: the layout of scales does not depend on the number of rows") {
  for (const bool with_gemm : {false, true}) {
    std::vector<Buffers> outs;
    for (const int64_t rows : {8, 64, 65, 256}) {
      const Quantised kernel{{rows}, 160, with_gemm};
      outs.push_back(run_spec(kernel.spec("  out y : mxfp8(layout = blocked_128x4)[M, N] = v\n"), kernel.inputs(wave)));
    }
    int64_t wrong = 0;
    for (size_t i = 0; i < 3; ++i)
      for (int64_t r = 0; r < (i == 0 ? 8 : 64); ++r)
        for (int64_t c = 0; c < 5; ++c) {
          const int64_t at = offset_128x4(r, c, 5);
          wrong += load_code(outs[i].at("y.scale"), at) != load_code(outs[3].at("y.scale"), at);
        }
    CHECK(wrong == 0);
  }
}

TEST_CASE("B24: the last block is short: a scale of its own over what exists") {
  for (const Quantised& kernel : both({5}, 80)) {
    // The third block has 16 numbers; what would lie behind them is another row's.
    const auto value = [](int64_t i) { return i % 80 < 64 ? 448.0 : std::ldexp(448.0, -static_cast<int>(i / 80)); };
    const Buffers out =
        run_spec(kernel.spec("  out q : mxfp8[M, N] = v\n  out b : mxfp8(layout = blocked_128x4)[M, N] = v\n"),
                 kernel.inputs(value));
    REQUIRE(out.at("q.scale").extents == std::vector<int64_t>{5, 3});
    for (int64_t m = 0; m < 5; ++m) {
      for (int64_t block = 0; block < 3; ++block)
        CHECK(load_code(out.at("q.scale"), m * 3 + block) == static_cast<uint32_t>(127 - (block == 2 ? m : 0)));
      CHECK(load_code(out.at("b.scale"), offset_128x4(m, 3, 3)) == 0);
      for (int64_t i = 0; i < 80; ++i) CHECK(load_code(out.at("q"), m * 80 + i) == 0x7E);
    }
  }
}

TEST_CASE("B26: whatever the activation, codes and scales are both written") {
  const std::vector<std::string> activations = {"swiglu(r, s)",    "reglu(r, s)", "geglu_tanh(r, s)",
                                                "geglu_erf(r, s)", "srelu(r)",    "silu(r)",
                                                "gelu_tanh(r)",    "gelu_erf(r)", "swiglu_oai(r, s, 1.702, 7, 1)"};
  for (const std::string& activation : activations) {
    for (const int64_t rows : {1, 8, 129}) {
      for (const Quantised& kernel : both({rows}, 64)) {
        const std::string spec =
            "use \"activations.epi\"\n" + kernel.spec(
                                              "  out q : mxfp8(layout = blocked_128x4)[M, N] = v\n"
                                              "  out n : nvfp4(layout = blocked_128x4)[M, N] = v\n",
                                              activation);
        std::string with_s = spec;
        with_s.insert(with_s.find("  in r :"), "  in s : f32[M, N] = 1\n");
        Buffers before = kernel.inputs([](int64_t i) { return static_cast<double>(i % 17 - 8) / 4; });
        before["s"] = tensor_by(Storage::f32, {rows, 64}, [](int64_t i) { return static_cast<double>(i % 5 - 2); });
        const Buffers ones = run_spec(with_s, before);
        for (const char* name : {"q", "q.scale", "n", "n.scale"}) {
          before[name] = ones.at(name);
          std::fill(before[name].bytes.begin(), before[name].bytes.end(), uint8_t{0});
        }
        const Buffers zeros = run_spec(with_s, before);
        INFO(activation << " " << rows << " " << kernel.with_gemm);
        // Behind the tiles of the one group nothing is written.
        const auto tiles = static_cast<size_t>((rows + 127) / 128 * 512);
        for (const char* name : {"q", "q.scale", "n", "n.scale"}) {
          const std::vector<uint8_t>&a = ones.at(name).bytes, &b = zeros.at(name).bytes;
          const bool is_scale = std::string(name).size() > 1;
          CHECK(std::equal(a.begin(), is_scale ? a.begin() + static_cast<int64_t>(tiles) : a.end(), b.begin()));
        }
      }
    }
  }
}

TEST_CASE("B27: any number of tokens for each expert, quantised along the tokens") {
  for (const Quantised& kernel : both({100, 28}, 40)) {
    const Buffers out = run_spec(kernel.spec("  out t : mxfp8[N, P] = v\n"), kernel.inputs(wave));
    // Each expert alone.
    for (size_t e = 0; e < 2; ++e) {
      const Quantised alone{{kernel.counts[e]}, 40, kernel.with_gemm};
      const int64_t first = e == 0 ? 0 : 100 * 40;
      const Buffers one =
          run_spec(alone.spec("  out t : mxfp8[N, P] = v\n"), alone.inputs([&](int64_t i) { return wave(first + i); }));
      const int64_t pitch = out.at("t").extents[1], own = one.at("t").extents[1];
      int64_t wrong = 0;
      for (int64_t n = 0; n < 40; ++n) {
        for (int64_t p = 0; p < 128; ++p)
          wrong += load_code(out.at("t"), n * pitch + 128 * static_cast<int64_t>(e) + p) !=
                   load_code(one.at("t"), n * own + p);
        for (int64_t k = 0; k < 4; ++k)
          wrong += load_code(out.at("t.scale"), n * (pitch / 32) + 4 * static_cast<int64_t>(e) + k) !=
                   load_code(one.at("t.scale"), n * (own / 32) + k);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("B17 B42 B44: rows of zeros have zero codes under finite scales, in every format") {
  for (const Quantised& kernel : both({130}, 256)) {
    const auto value = [](int64_t i) { return i / 256 < 128 ? wave(i) : 0.0; };
    Buffers inputs = kernel.inputs(value);
    const std::vector<std::string> types = {"fp8_1x128",
                                            "fp8_1x128(rule = te_f32)",
                                            "fp8_1x128(rule = deepgemm)",
                                            "fp8_1x128(rule = torchao)",
                                            "fp8_1x128(rule = vllm)",
                                            "fp8_1x128(layout = columns_tma, elem = e5m2)",
                                            "mxfp8",
                                            "mxfp4(rule = even)",
                                            "nvfp4",
                                            "nvfp4(rule = torchao)"};
    for (const std::string& type : types) {
      INFO(type << " " << kernel.with_gemm);
      const Buffers out = run_spec(kernel.spec("  out q : " + type + "[M, N] = v\n"), inputs);
      int64_t wrong = 0;
      for (int64_t i = 128 * 256; i < 130 * 256; ++i) wrong += load_code(out.at("q"), i) != 0;
      const interpreter::HostTensor& scale = out.at("q.scale");
      const bool turned = scale.extents[0] != 130;  // [blocks, pitch], of which behind the last row nothing is written
      for (int64_t i = 0; i < scale.elements(); ++i)
        wrong += (!turned || i % scale.extents[1] < 130) && !std::isfinite(load_one(scale, i));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("B32 B34 B35 B39 B40 B42 B46 B53: blocks of mxfp8_blocks.json through a kernel's store") {
  const auto document = vectors("mxfp8_blocks.json");
  for (const std::string element : {"e4m3", "e5m2"}) {
    Blocks blocks;
    std::vector<uint32_t> scales, codes;
    for (const auto& row : document["rows"]) {
      if (row["elem"] != element) continue;
      blocks.names.push_back(row["name"]);
      for (const std::string word : row["x_f32"]) blocks.values.push_back(f32_of_bits(word));
      scales.push_back(hex_bytes(row["rceil"]["scale"].get<std::string>().substr(2))[0]);
      for (const uint32_t code : hex_bytes(row["rceil"]["codes"])) codes.push_back(code);
    }
    REQUIRE(!blocks.names.empty());
    for (const bool with_gemm : {false, true}) {
      const Quantised kernel = rows_of_blocks(blocks, 32, with_gemm);
      const Buffers out = run_spec(kernel.spec("  out q : mxfp8(elem = " + element + ")[M, N] = v\n"),
                                   kernel.inputs([&](int64_t i) { return blocks.values[static_cast<size_t>(i)]; }));
      for (size_t b = 0; b < blocks.names.size(); ++b) {
        INFO(blocks.names[b] << " " << element << " " << with_gemm);
        CHECK(load_code(out.at("q.scale"), static_cast<int64_t>(b)) == scales[b]);
        for (size_t i = 32 * b; i < 32 * (b + 1); ++i)
          CHECK(load_code(out.at("q"), static_cast<int64_t>(i)) == codes[i]);
      }
    }
  }
}

TEST_CASE("B34: no block of Gaussian numbers clips its largest") {
  for (const bool with_gemm : {false, true}) {
    const Quantised kernel{{1024}, 128, with_gemm};
    Buffers inputs = kernel.inputs([](int64_t) { return 0.0; });
    inputs["r"] = normal_tensor(Storage::f32, {1024, 128}, 34);
    const Buffers out = run_spec(kernel.spec("  out q : mxfp8[M, N] = v\n"), inputs);
    int64_t clipped = 0, too_large = 0;
    for (int64_t b = 0; b < 4096; ++b) {
      double amax = 0;
      for (int64_t i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(load_one(inputs.at("r"), b * 32 + i)));
      const double scale = load_one(out.at("q.scale"), b);
      clipped += amax / scale > 448;
      too_large += amax / scale <= 224;
    }
    CHECK(clipped == 0);
    CHECK(too_large == 0);
  }
}

TEST_CASE("B41 B44 B50 B55 B58: blocks of nvfp4_blocks.json, the tensor's maximum given") {
  const auto document = vectors("nvfp4_blocks.json");
  for (const auto& row : document["rows"]) {
    for (const bool with_gemm : {false, true}) {
      INFO(row["name"].get<std::string>() << " " << with_gemm);
      const Quantised kernel{{1}, 16, with_gemm};
      const std::vector<double> x = row["x"];
      Buffers inputs = kernel.inputs([&](int64_t i) { return x[static_cast<size_t>(i)]; });
      inputs["most"] = tensor_of(Storage::f32, {}, {row["amax_tensor"].get<double>()});
      std::string spec = kernel.spec("  out q : nvfp4(amax = most)[M, N] = v\n");
      spec.insert(spec.find("  in r :"), "  in most : f32\n");
      const Buffers out = run_spec(spec, inputs);
      CHECK(load_code(out.at("q.scale"), 0) == hex_bytes(row["scale_e4m3"].get<std::string>().substr(2))[0]);
      CHECK(std::isfinite(load_one(out.at("q.scale"), 0)));
      const std::string nibbles = row["nibbles"];
      for (int64_t i = 0; i < 16; ++i)
        CHECK(load_code(out.at("q"), i) == std::stoul(nibbles.substr(static_cast<size_t>(i), 1), nullptr, 16));
    }
  }
}

TEST_CASE("B57: each expert is quantised under its own maximum") {
  for (const Quantised& kernel : both({2, 0, 3}, 32)) {
    Buffers inputs = kernel.inputs([](int64_t i) { return i < 64 ? 1.0 : 1000.0; });
    inputs["most"] = tensor_of(Storage::f32, {3}, {1, 5, 1000});
    std::string spec = kernel.spec("  out q : nvfp4(amax = most)[M, N] = v\n");
    spec.insert(spec.find("  in r :"), "  in most : f32[E]\n");
    const Buffers out = run_spec(spec, inputs);
    // At its tensor's maximum a block has the largest scale and the largest code, whatever that maximum is.
    for (int64_t i = 0; i < 10; ++i) CHECK(load_code(out.at("q.scale"), i) == 0x7E);
    for (int64_t i = 0; i < 5 * 32; ++i) CHECK(load_code(out.at("q"), i) == 7);
  }
}

TEST_CASE("B46 B47 B48: plain FP8 saturates, and NaN is the one code that it has") {
  for (const Quantised& kernel : both({1}, 16)) {
    const std::vector<double> x = {464,       465,   1000,  -1e30, 448, 440,  432, INFINITY,
                                   -INFINITY, 57344, 61440, 65536, 0.0, -0.0, 1,   NAN};
    const Buffers out = run_spec(kernel.spec("  out a : e4m3[M, N] = v\n  out b : e5m2[M, N] = v\n"),
                                 kernel.inputs([&](int64_t i) { return x[static_cast<size_t>(i)]; }));
    const std::vector<uint32_t> a = {0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0x7E, 0x7E, 0x7E,
                                     0xFE, 0x7E, 0x7E, 0x7E, 0,    0x80, 0x38, 0x7F};
    const std::vector<uint32_t> b = {0x5F, 0x5F, 0x64, 0xFB, 0x5F, 0x5F, 0x5F, 0x7B,
                                     0xFB, 0x7B, 0x7B, 0x7B, 0,    0x80, 0x3C, 0x7F};
    for (int64_t i = 0; i < 16; ++i) {
      INFO(x[static_cast<size_t>(i)] << " " << kernel.with_gemm);
      // 432 lies between 416 and 448, which is even.
      CHECK((load_code(out.at("a"), i) & (i == 15 ? 0x7F : 0xFF)) == a[static_cast<size_t>(i)]);
      CHECK((load_code(out.at("b"), i) & (i == 15 ? 0x7F : 0xFF)) == b[static_cast<size_t>(i)]);
    }
  }
}

TEST_CASE("B49: a NaN in a block is in its scale and in every code, or as Transformer Engine has it") {
  for (const Quantised& kernel : both({3}, 128)) {
    const auto value = [](int64_t i) { return i == 5 ? NAN : i == 128 + 7 ? INFINITY : 1.0; };
    const Buffers out = run_spec(kernel.spec("  out q : mxfp8[M, N] = v\n  out f : fp8_1x128[M, N] = v\n"
                                             "  out n : nvfp4[M, N] = v\n  out te : mxfp8(nonfinite = te)[M, N] = v\n"),
                                 kernel.inputs(value));
    for (int64_t m = 0; m < 2; ++m) {
      CHECK(load_code(out.at("q.scale"), m * 4) == 0xFF);
      CHECK(std::isnan(load_one(out.at("f.scale"), m)));
      CHECK(load_code(out.at("n.scale"), m * 8) == 0x7F);
      for (int64_t i = 0; i < 32; ++i) CHECK(load_code(out.at("q"), m * 128 + i) == 0x7F);
      for (int64_t i = 0; i < 128; ++i) CHECK(load_code(out.at("f"), m * 128 + i) == 0x7F);
      for (int64_t i = 0; i < 16; ++i) CHECK(load_code(out.at("n"), m * 128 + i) == 0x7);
      // The next block does not know of it.
      CHECK(load_code(out.at("q.scale"), m * 4 + 1) == load_code(out.at("q.scale"), 2 * 4));
    }
    CHECK(load_code(out.at("te.scale"), 0) == load_code(out.at("te.scale"), 8));  // of the numbers
    CHECK(load_code(out.at("te"), 5) == 0x7F);
    CHECK(load_code(out.at("te"), 6) == load_code(out.at("te"), 256));
    CHECK(load_code(out.at("te.scale"), 4) == 0xFE);
    CHECK(load_code(out.at("te"), 128 + 7) == 0x7E);
  }
}

TEST_CASE("B50: conversions to e2m1 carry before they clamp") {
  const auto document = vectors("scalar_e2m1.json");
  std::vector<double> x;
  std::vector<uint32_t> codes;
  for (const auto& row : document["rows"]) {
    const double value = f32_of_bits(row["x_f32"].get<std::string>());
    if (!std::isfinite(value) || std::fabs(value) > 6) continue;  // the block's scale would be another
    x.push_back(value);
    codes.push_back(static_cast<uint32_t>(std::stoul(row["satfinite"].get<std::string>(), nullptr, 16)));
  }
  REQUIRE(x.size() > 15);
  // A block for each number, beside a 6 that makes the scale 1.
  for (const bool with_gemm : {false, true}) {
    const Quantised kernel{{static_cast<int64_t>(x.size())}, 32, with_gemm};
    const Buffers out = run_spec(kernel.spec("  out q : mxfp4[M, N] = v\n"), kernel.inputs([&](int64_t i) {
      return i % 32 == 0 ? 6.0 : i % 32 == 9 ? x[static_cast<size_t>(i / 32)] : 0.0;
    }));
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(x[i] << " " << with_gemm);
      CHECK(load_code(out.at("q.scale"), static_cast<int64_t>(i)) == 127);
      CHECK(load_code(out.at("q"), static_cast<int64_t>(i) * 32 + 9) == codes[i]);
    }
  }
}

TEST_CASE("B51: stochastic rounding needs no instruction, is not zero, and is right on average") {
  for (const bool with_gemm : {false, true}) {
    const Quantised kernel{{256}, 256, with_gemm};
    Buffers inputs = kernel.inputs([](int64_t i) { return i % 16 == 0 ? 6.0 : 2.3; });  // between 2 and 3
    inputs["most"] = tensor_of(Storage::f32, {}, {2688});
    inputs["rng"] = tensor_of(Storage::i64, {2}, {12345, 7});
    std::string spec = kernel.spec(
        "  out q : nvfp4(amax = most, seed = rng)[M, N] = v\n  out near : nvfp4(amax = most)[M, N] = v\n"
        "  out m : mxfp4(seed = rng)[M, N] = v\n");
    spec.insert(spec.find("  in r :"), "  in most : f32\n  in rng : i64[2]\n");
    const Buffers out = run_spec(spec, inputs);
    for (const std::string name : {"q", "m"}) {
      double sum = 0;
      int64_t others = 0, count = 0;
      for (int64_t i = 0; i < 256 * 256; ++i) {
        if (i % 16 == 0) continue;
        const double value = load_one(out.at(name), i);
        others += value != 2 && value != 3;
        sum += value;
        ++count;
      }
      INFO(name << " " << with_gemm);
      CHECK(others == 0);
      // Only 8 bits take part: at most 1/256 of a step low; five standard deviations of the mean.
      const double mean = sum / static_cast<double>(count),
                   deviation = std::sqrt(0.3 * 0.7 / static_cast<double>(count));
      CHECK(mean < 2.3 + 5 * deviation);
      CHECK(mean > 2.3 - 1.0 / 256 - 5 * deviation);
    }
    CHECK(load_one(out.at("near"), 1) == 2);
    // Another offset, other numbers; the same one, the same.
    CHECK((run_spec(spec, inputs).at("q").bytes == out.at("q").bytes));
    inputs["rng"] = tensor_of(Storage::i64, {2}, {12345, 8});
    CHECK((run_spec(spec, inputs).at("q").bytes != out.at("q").bytes));
  }
}

TEST_CASE("B53: bytes of e5m2 are not read as e4m3") {
  const std::string text =
      "kernel k {\n  dim N = 8\n  dyn S\n  in a : e5m2[S, N]\n  in b : e4m3[S, N]\n"
      "  out y : f32[S, N] = a\n  out z : f32[S, N] = b\n}\n";
  Buffers inputs = {{"a", interpreter::make_tensor(Storage::e5m2, {1, 8}, 0x3C)},
                    {"b", interpreter::make_tensor(Storage::e4m3, {1, 8}, 0x3C)}};
  const Buffers out = run_spec(text, inputs);
  CHECK(load_one(out.at("y"), 3) == 1.0);
  CHECK(load_one(out.at("z"), 3) == 1.5);
}

TEST_CASE("B56: gate and up have scales of their own") {
  const std::string text =
      "use \"activations.epi\"\nkernel halves {\n  dim E = 1, K = 8, I = 64\n  group M by E\n"
      "  in x : bf16[M, K]\n  in w : bf16[E, 2*I, K]\n  in alpha : f32[E, 2*I]\n"
      "  gate, up = split(gemm(x, w) * alpha)\n  out g : f32[M, I] = gate\n  out u : f32[M, I] = up\n}\n";
  Buffers inputs = {{"x", tensor_by(Storage::bf16, {3, 8}, [](int64_t i) { return i % 8 == 0 ? 1.0 : 0.0; })},
                    {"w", tensor_by(Storage::bf16, {1, 128, 8}, [](int64_t i) { return i % 8 == 0 ? 3.0 : 0.0; })},
                    {"alpha", tensor_by(Storage::f32, {1, 128}, [](int64_t i) { return i < 64 ? 0.5 : 2.0; })},
                    {"M.ends", tensor_of(Storage::i32, {1}, {3})}};
  const Buffers out = run_spec(text, inputs);
  CHECK(values_of(out.at("g")) == std::vector<double>(3 * 64, 1.5));
  CHECK(values_of(out.at("u")) == std::vector<double>(3 * 64, 6));
}

TEST_CASE("B59: what is quantised is f32, unless the spec rounds it first; the two differ") {
  for (const Quantised& kernel : both({4}, 32)) {
    // 448.5 is no bf16: rounded, it is 448, and the block needs no larger scale.
    const Buffers out = run_spec(kernel.spec("  out a : mxfp8[M, N] = v\n  out b : mxfp8[M, N] = cast(v, bf16)\n"),
                                 kernel.inputs([](int64_t i) { return i % 32 == 0 ? 448.5 : 1.0; }));
    for (int64_t m = 0; m < 4; ++m) {
      CHECK(load_code(out.at("a.scale"), m) == 128);
      CHECK(load_code(out.at("b.scale"), m) == 127);
    }
  }
}

}  // namespace epifuse
