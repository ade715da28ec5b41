// The 16-point rotation: published results, where its blocks begin, what is missing, and what f32 may make of it.
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/compare.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::hex_words;
using test::normal_tensor;
using test::read_vectors;
using test::tensor_of;
using test::Value;
using test::values_of;

constexpr uint32_t te_signs = 0xD7E8;

Buffers run_or_fail(const ir::Graph& graph, const Buffers& buffers) {
  REQUIRE(ir::verify(graph) == std::vector<std::string>{});
  const Result<Buffers> outputs = run(graph, buffers);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  return *outputs;
}

// As the language says it, term by term.
double rotated(const std::vector<double>& x, size_t block, size_t end, int c, uint32_t signs) {
  double sum = 0;
  for (int r = 0; r < 16 && block + static_cast<size_t>(r) < end; ++r) {
    const bool negative = ((signs >> r) + static_cast<uint32_t>(std::popcount(static_cast<unsigned>(r & c)))) % 2 != 0;
    sum += negative ? -x[block + static_cast<size_t>(r)] : x[block + static_cast<size_t>(r)];
  }
  return sum / 4;
}

TEST_CASE("numerics/nvfp4_rht.json, with the codes behind it") {
  for (const auto& row : read_vectors("numerics/nvfp4_rht.json", "cases")) {
    GraphBuilder g;
    g.dim("N", 16);
    const Value y = g.hadamard(g.in("x", "f32", "N"), "N", te_signs), rounded = g.cast(y, Storage::bf16);
    g.in("amax", "f32", "");
    g.out("y", "f32", "N", y);
    g.out("rounded", "bf16", "N", rounded);
    g.out("largest", "f32", "", rounded, ir::Reduction::amax);
    ir::TensorType type = GraphBuilder::type("nvfp4");
    type.amax_input = "amax";
    g.out("q", type, "N", rounded);
    Buffers buffers;
    buffers["x"] = make_tensor(Storage::f32, {16});
    const std::vector<uint32_t> words = hex_words(row["x"]);
    for (int64_t i = 0; i < 16; ++i) store_code(buffers["x"], i, words[i]);
    buffers["amax"] = tensor_of(Storage::f32, {}, {test::f32_of_bits(row["amax_of_y_bf16"])});
    const Buffers out = run_or_fail(g.graph, buffers);
    INFO(row["name"].dump());
    const auto codes_of = [](const HostTensor& tensor) {
      std::vector<uint32_t> codes;
      for (int64_t i = 0; i < tensor.elements(); ++i) codes.push_back(load_code(tensor, i));
      return codes;
    };
    CHECK(codes_of(out.at("y")) == hex_words(row["y_fp32_correctly_rounded"]));
    CHECK(codes_of(out.at("rounded")) == hex_words(row["y_bf16"]));
    CHECK(codes_of(out.at("largest")) == hex_words(row["amax_of_y_bf16"]));
    const auto& expected = row["nvfp4_te_with_that_amax"];
    CHECK(codes_of(out.at("q.scale")) == hex_words(expected["scale"]));
    const std::vector<uint8_t>& bytes = out.at("q").bytes;
    CHECK(std::vector<uint32_t>(bytes.begin(), bytes.end()) == hex_words(expected["q"]));
  }
}

TEST_CASE("rotated once more, and with its signs, a value is what it was") {
  GraphBuilder g;
  g.dim("N", 16);
  const Value x = g.in("x", "f32", "N"), signs = g.in("signs", "f32", "N");
  g.out("back", "f32", "N", g.hadamard(g.hadamard(x, "N", te_signs), "N") * signs);
  g.out("first", "f32", "N", g.hadamard(x, "N", 1));  // bit 0 is the first element's
  Buffers buffers;
  buffers["x"] = test::integer_tensor(Storage::f32, {16}, 7, 50);
  buffers["signs"] =
      test::tensor_by(Storage::f32, {16}, [](int64_t r) { return (te_signs >> r & 1) != 0 ? -1.0 : 1.0; });
  const Buffers out = run_or_fail(g.graph, buffers);
  CHECK(values_of(out.at("back")) == values_of(buffers.at("x")));
  const std::vector<double> given = values_of(buffers.at("x"));
  double sum = -given[0];
  for (size_t r = 1; r < 16; ++r) sum += given[r];
  CHECK(values_of(out.at("first"))[0] == sum / 4);
}

TEST_CASE("blocks begin with each group, and what is missing is zero") {
  GraphBuilder g;
  g.dim("E", 3), g.dim("I", 20);
  g.group("M", "E", ir::GroupSizes::counts);
  g.align("P", "M", 32);
  const Value x = g.in("x", "f32", "M, I");
  const Value along_rows = g.hadamard(x, "M", te_signs), along_columns = g.hadamard(x + x, "I");
  g.out("yt", "f32", "I, P", along_rows);
  g.out("y", "f32", "M, I", along_columns);
  const std::vector<double> counts = {5, 0, 40};
  const int64_t rows = 50;
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {3}, counts);
  buffers["x"] = normal_tensor(Storage::bf16, {rows, 20}, 1);
  buffers["x"] = tensor_of(Storage::f32, {rows, 20}, values_of(buffers["x"]));
  for (int64_t i = 45 * 20; i < rows * 20; ++i) store_one(buffers["x"], i, std::nan(""));
  const Buffers out = run_or_fail(g.graph, buffers);
  const std::vector<double> in = values_of(buffers["x"]), y = values_of(out.at("y")), yt = values_of(out.at("yt"));
  const int64_t capacity = out.at("yt").extents[1];
  int64_t start = 0, place = 0;
  for (double count : counts) {
    const auto size = static_cast<int64_t>(count);
    for (int64_t m = 0; m < size; ++m)
      for (int64_t c = 0; c < 20; ++c) {
        std::vector<double> column, row;
        for (int64_t i = 0; i < size; ++i) column.push_back(in[(start + i) * 20 + c]);
        for (int64_t i = 0; i < 20; ++i) row.push_back(2 * in[(start + m) * 20 + i]);
        const auto block = static_cast<size_t>(m / 16 * 16);
        CHECK(yt[c * capacity + place + m] ==
              static_cast<float>(rotated(column, block, column.size(), static_cast<int>(m % 16), te_signs)));
        CHECK(y[(start + m) * 20 + c] ==
              static_cast<float>(rotated(row, static_cast<size_t>(c / 16 * 16), 20, static_cast<int>(c % 16), 0)));
      }
    start += size;
    place += (size + 31) / 32 * 32;
  }
}

TEST_CASE("along a doubled dimension, of a value that is computed, with halves taken afterwards") {
  GraphBuilder g;
  g.dyn("S");
  g.dim("I", 16);
  const Value x = g.in("x", "f32", "S, 2*I"), s = g.in("s", "f32", "S");
  const Value y = g.hadamard(g.map(ir::Op::abs, {x}) * s, "2*I", 3);
  g.out("left", "f32", "S, I", g.split(y, 0));
  g.out("right", "f32", "S, I", g.split(y, 1));
  Buffers buffers;
  buffers["x"] = test::integer_tensor(Storage::f32, {3, 32}, 4, 9);
  buffers["s"] = tensor_of(Storage::f32, {3}, {1, 2, 4});
  const Buffers out = run_or_fail(g.graph, buffers);
  const std::vector<double> in = values_of(buffers["x"]), left = values_of(out.at("left")),
                            right = values_of(out.at("right"));
  for (int64_t m = 0; m < 3; ++m) {
    std::vector<double> row;
    for (int64_t i = 0; i < 32; ++i) row.push_back(std::fabs(in[m * 32 + i]) * (1 << m));
    for (int64_t i = 0; i < 16; ++i) {
      CHECK(left[m * 16 + i] == rotated(row, 0, 32, static_cast<int>(i), 3));
      CHECK(right[m * 16 + i] == rotated(row, 16, 32, static_cast<int>(i), 3));
    }
  }
}

// Butterflies in f32, from the nearest neighbours to the farthest or the other way.
std::vector<float> butterflies(std::vector<float> v, bool nearest_first) {
  for (int stage = 0; stage < 4; ++stage) {
    const size_t h = size_t{1} << (nearest_first ? stage : 3 - stage);
    for (size_t i = 0; i < 16; ++i)
      if (!(i & h)) {
        const float a = v[i], b = v[i + h];
        v[i] = a + b, v[i + h] = a - b;
      }
  }
  for (float& x : v) x *= 0.25f;
  return v;
}

TEST_CASE("the judge takes f32 butterflies in any order, and on whole numbers nothing else than the result") {
  for (bool whole_numbers : {false, true}) {
    GraphBuilder g;
    g.dim("N", 16);
    g.dyn("S");
    g.out("y", "f32", "S, N", g.hadamard(g.in("x", "f32", "S, N"), "N"));
    Buffers buffers;
    buffers["x"] = whole_numbers ? test::integer_tensor(Storage::f32, {200, 16}, 5, 1000)
                                 : normal_tensor(Storage::f32, {200, 16}, 5);
    const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
    const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
    REQUIRE(reference);
    const std::vector<double> x = values_of(buffers["x"]);
    for (bool nearest_first : {false, true}) {
      Buffers stored = *make_outputs(reference->problem());
      for (int64_t row = 0; row < 200; ++row) {
        const std::vector<float> y =
            butterflies(std::vector<float>(x.begin() + row * 16, x.begin() + row * 16 + 16), nearest_first);
        for (int64_t c = 0; c < 16; ++c) store_one(stored["y"], row * 16 + c, y[c]);
      }
      const Verdict verdict = *judge(*reference, g.graph.outputs[0], stored);
      INFO(verdict.print());
      CHECK(verdict.ok);
      if (whole_numbers) CHECK(verdict.different == 0);
      // One unit more of an exact result, or a millionth of the terms of any other, is wrong.
      HostTensor& y = stored["y"];
      const double value = load_one(y, 37);
      store_one(y, 37, whole_numbers ? std::nextafterf(static_cast<float>(value), 1e9f) : value + 1e-5);
      CHECK(judge(*reference, g.graph.outputs[0], stored)->outside == 1);
    }
  }
}

}  // namespace
}  // namespace epifuse::interpreter
