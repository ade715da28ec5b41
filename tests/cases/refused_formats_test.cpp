// Cases of scaled and FP8 operands, which no plan takes yet and the interpreter does: refused by name, and right; and
// what is said where scales of another shape or type are given. README.md says what each is about.
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "compiler/compiler.h"
#include "tests/cases/run_spec.h"

namespace epifuse {
namespace {

using interpreter::Buffers;
using interpreter::load_one;
using namespace test;

// What the compiler says of the only kernel of a text, which has to be a good spec that it cannot lower.
std::string refusal(const std::string& text) {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics);
  REQUIRE(diagnostics.all().empty());
  CHECK_FALSE(plan_kernel(program, "", {}, diagnostics));
  REQUIRE(diagnostics.has_errors());
  for (const Diagnostic& diagnostic : diagnostics.all()) CHECK(diagnostic.where.file);
  return diagnostics.print();
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

// Power-of-two scales from exponents.
interpreter::HostTensor e8m0_by(std::vector<int64_t> extents, const std::function<int64_t(int64_t)>& exponent) {
  interpreter::HostTensor tensor = interpreter::make_tensor(Storage::e8m0, std::move(extents));
  for (int64_t i = 0; i < tensor.elements(); ++i)
    interpreter::store_code(tensor, i, static_cast<uint32_t>(127 + exponent(i)));
  return tensor;
}

std::string bind_error(const ir::Graph& graph, const Buffers& buffers) {
  const auto problem = interpreter::Problem::bind(graph, buffers, {});
  REQUIRE_FALSE(problem);
  return problem.error().message;
}

}  // namespace

TEST_CASE("B25: scales of a weight belong to its rows and blocks, however the weight lies") {
  const std::string text =
      "kernel scaled {\n  dim N = 128, K = 4096\n  dyn S\n  in x : f32[S, K]\n  in w : mxfp8[N, K]\n"
      "  out y : f32[S, N] = gemm(x, w)\n}\n";
  has(refusal(text), "a gemm operand of type");
  const ir::Graph graph = graph_of(text, {});
  // x has a one in each block in turn, so that a wrong scale is seen; products and sums are exact.
  Buffers buffers = {
      {"x", tensor_by(Storage::f32, {128, 4096}, [](int64_t i) { return i % 4096 / 32 == i / 4096 ? 1.0 : 0.0; })},
      {"w", tensor_by(Storage::e4m3, {128, 4096}, [](int64_t) { return 1.0; })},
      {"w.scale", e8m0_by({128, 128}, [](int64_t i) { return (i / 128 + 3 * (i % 128)) % 5; })}};
  const Buffers out = interpret(graph, buffers);
  int64_t wrong = 0;
  for (int64_t s = 0; s < 128; ++s)
    for (int64_t n = 0; n < 128; ++n)
      wrong += load_one(out.at("y"), s * 128 + n) != std::ldexp(32.0, static_cast<int>((n + 3 * s) % 5));
  CHECK(wrong == 0);
}

TEST_CASE("B27: groups that are not aligned to the block are one message, with the block and what to write") {
  const Diagnostics diagnostics =
      check_text("kernel k {\n  dim E = 2, N = 64\n  group M by E\n  in x : f32[M, N]\n  out t : mxfp8[N, M] = x\n}\n");
  const std::string said = diagnostics.print();
  has(said, "blocks of 32 along 'M' may meet two groups");
  has(said, "group P = M align 128");
  CHECK(diagnostics.all().size() == 1);
}

TEST_CASE("B29: compact scales are taken as rows; of another shape, both shapes are said") {
  const auto graph = [](const std::string& layout) {
    return graph_of(
        "kernel k {\n  dim N = 64\n  dyn S\n  in q : mxfp8" + layout + "[S, N]\n  out y : f32[S, N] = q\n}\n", {});
  };
  Buffers buffers = {{"q", tensor_by(Storage::e4m3, {64, 64}, [](int64_t) { return 1.0; })},
                     {"q.scale", e8m0_by({64, 2}, [](int64_t i) { return 1 + i % 2; })}};
  const Buffers out = interpret(graph(""), buffers);
  CHECK(load_one(out.at("y"), 31) == 2);
  CHECK(load_one(out.at("y"), 32) == 4);
  const std::string said = bind_error(graph("(layout = blocked_128x4)"), buffers);
  has(said, "64, 2");
  has(said, "1, 1, 512");
}

TEST_CASE("B38: scale byte 0 is 2^-127, and 255 is NaN") {
  const auto document = nlohmann::json::parse(read_file("tests/vectors/e8m0_decode.json"));
  const ir::Graph graph =
      graph_of("kernel k {\n  dim N = 32\n  dyn S\n  in q : mxfp8[S, N]\n  out y : f32[S, N] = q\n}\n", {});
  const auto rows = static_cast<int64_t>(document["rows"].size());
  Buffers buffers = {{"q", tensor_by(Storage::e4m3, {rows, 32}, [](int64_t) { return 1.0; })},
                     {"q.scale", interpreter::make_tensor(Storage::e8m0, {rows, 1})}};
  for (int64_t i = 0; i < rows; ++i)
    interpreter::store_code(
        buffers["q.scale"], i,
        hex_bytes(document["rows"][static_cast<size_t>(i)]["code"].get<std::string>().substr(2))[0]);
  const Buffers out = interpret(graph, buffers);
  for (int64_t i = 0; i < rows; ++i) {
    const auto& row = document["rows"][static_cast<size_t>(i)];
    INFO(row["code"].get<std::string>());
    const double value = load_one(out.at("y"), i * 32 + 5);
    if (row["code"] == "0xFF")
      CHECK(std::isnan(value));
    else
      CHECK(value == f32_of_bits(row["value_f32"]));
  }
}

TEST_CASE("B53: a gradient in e5m2 is refused as an operand, never read as e4m3") {
  const std::string text =
      "kernel k {\n  dim N = 16, K = 32\n  dyn S\n  in dy : e5m2[S, K]\n  in w : bf16[N, K]\n"
      "  out dx : f32[S, N] = gemm(dy, w)\n}\n";
  has(refusal(text), "a gemm operand of type e5m2");
  Buffers buffers = {{"dy", interpreter::make_tensor(Storage::e5m2, {2, 32}, 0x3C)},
                     {"w", tensor_by(Storage::bf16, {16, 32}, [](int64_t) { return 1.0; })}};
  CHECK(values_of(interpret(graph_of(text, {}), buffers).at("dx")) == std::vector<double>(2 * 16, 32));
}

TEST_CASE("B54: f32 scales are none of a type of power-of-two scales, whatever they hold") {
  const ir::Graph graph =
      graph_of("kernel k {\n  dim N = 128\n  dyn S\n  in q : mxfp8[S, N]\n  out y : f32[S, N] = q\n}\n", {});
  Buffers buffers = {{"q", tensor_by(Storage::e4m3, {1, 128}, [](int64_t) { return 1.0; })},
                     {"q.scale", tensor_by(Storage::f32, {1, 4}, [](int64_t) { return 0.75; })}};
  const std::string said = bind_error(graph, buffers);
  has(said, "f32");
  has(said, "e8m0");
  // As what they are, they are right.
  const ir::Graph blocks =
      graph_of("kernel k {\n  dim N = 128\n  dyn S\n  in q : fp8_1x128[S, N]\n  out y : f32[S, N] = q\n}\n", {});
  buffers["q.scale"] = tensor_by(Storage::f32, {1, 1}, [](int64_t) { return 0.75; });
  CHECK(values_of(interpret(blocks, buffers).at("y")) == std::vector<double>(128, 0.75));
}

}  // namespace epifuse
