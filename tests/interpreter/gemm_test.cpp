// The products against three plain loops, for every way in which names can make a gemm.
#include <cmath>

#include "compiler/interpreter/interpreter.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::integer_tensor;
using test::normal_tensor;
using test::tensor_of;
using test::Value;
using test::values_of;

Buffers run_or_fail(const ir::Graph& graph, const Buffers& buffers) {
  REQUIRE(ir::verify(graph) == std::vector<std::string>{});
  Result<Buffers> outputs = run(graph, buffers);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  return *std::move(outputs);
}

TEST_CASE("dense and batched, with odd sizes and both orders of the operands") {
  const int64_t b = 3, s = 131, n = 137, k = 301;
  GraphBuilder g;
  g.dim("N", n), g.dim("K", k);
  g.dyn("B"), g.dyn("S");
  const Value x = g.in("x", "bf16", "B, S, K"), w = g.in("w", "f16", "B, N, K"), v = g.in("v", "bf16", "N, K");
  g.out("y", "f32", "B, S, N", g.gemm(x, w, "K"));
  g.out("z", "f32", "B, S, N", g.gemm(v, x, "K"));
  Buffers buffers;
  buffers["x"] = integer_tensor(Storage::bf16, {b, s, k}, 1);
  buffers["w"] = integer_tensor(Storage::f16, {b, n, k}, 2);
  buffers["v"] = integer_tensor(Storage::bf16, {n, k}, 3);
  const Buffers out = run_or_fail(g.graph, buffers);
  const std::vector<double> xs = values_of(buffers["x"]), ws = values_of(buffers["w"]), vs = values_of(buffers["v"]);
  for (int64_t i = 0; i < b; ++i)
    for (int64_t row = 0; row < s; row += 13)
      for (int64_t col = 0; col < n; ++col) {
        double y = 0, z = 0;
        for (int64_t j = 0; j < k; ++j) {
          y += xs[(i * s + row) * k + j] * ws[(i * n + col) * k + j];
          z += xs[(i * s + row) * k + j] * vs[col * k + j];
        }
        CHECK(load_one(out.at("y"), (i * s + row) * n + col) == y);
        CHECK(load_one(out.at("z"), (i * s + row) * n + col) == z);
      }
}

TEST_CASE("ragged rows: halves and pieces of weights, gathered rows, scaled operands") {
  const int64_t k = 64, i_size = 24, rows = 40, tokens = 10;
  GraphBuilder g;
  g.dim("E", 3), g.dim("K", k), g.dim("I", i_size);
  g.dyn("T");
  g.group("M", "E");
  const Value x = g.in("x", "bf16", "T, K"), index = g.in("index", "i32", "M"), w = g.in("w", "bf16", "E, 2*I, K"),
              q = g.in("q", "mxfp8", "M, K"), v = g.in("v", "bf16", "E, I, K");
  g.out("gathered", "f32", "M, 2*I", g.gemm(g.gather(x, index, "T"), w, "K"));
  g.out("scaled", "f32", "M, I", g.gemm(q, v, "K"));
  g.out("dequantised", "f32", "M, K", q);
  Buffers buffers;
  const std::vector<double> ends = {7, 7, 33};
  buffers["M.ends"] = tensor_of(Storage::i32, {3}, ends);
  buffers["x"] = integer_tensor(Storage::bf16, {tokens, k}, 4);
  buffers["index"] = test::tensor_by(Storage::i32, {rows}, [](int64_t i) { return static_cast<double>(i % 11 - 1); });
  buffers["w"] = integer_tensor(Storage::bf16, {3, 2 * i_size, k}, 5);
  buffers["q"] = integer_tensor(Storage::e4m3, {rows, k}, 6);
  buffers["q.scale"] = test::tensor_by(Storage::f32, {rows, k / 32}, [](int64_t) { return 0.0; });
  buffers["q.scale"] = make_tensor(Storage::e8m0, {rows, k / 32});
  for (int64_t i = 0; i < rows * k / 32; ++i) store_code(buffers["q.scale"], i, static_cast<uint32_t>(126 + i % 3));
  buffers["v"] = integer_tensor(Storage::bf16, {3, i_size, k}, 7);
  const Buffers out = run_or_fail(g.graph, buffers);
  const std::vector<double> xs = values_of(buffers["x"]), ws = values_of(buffers["w"]), vs = values_of(buffers["v"]),
                            qs = values_of(buffers["q"]), scales = values_of(buffers["q.scale"]);
  for (int64_t m = 0; m < 33; ++m) {
    const int64_t e = m < 7 ? 0 : 2, token = m % 11 - 1;
    for (int64_t n = 0; n < 2 * i_size; ++n) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += token < 0 ? 0 : xs[token * k + j] * ws[(e * 2 * i_size + n) * k + j];
      CHECK(load_one(out.at("gathered"), m * 2 * i_size + n) == sum);
    }
    for (int64_t n = 0; n < i_size; ++n) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += qs[m * k + j] * scales[m * 2 + j / 32] * vs[(e * i_size + n) * k + j];
      CHECK(load_one(out.at("scaled"), m * i_size + n) == sum);
    }
    for (int64_t j = 0; j < k; ++j)
      CHECK(load_one(out.at("dequantised"), m * k + j) == qs[m * k + j] * scales[m * 2 + j / 32]);
  }
}

TEST_CASE("parts of an operand") {
  const int64_t k = 16, i_size = 8;
  for (int64_t piece : {0, 1, 4}) {
    GraphBuilder g;
    g.dim("K", k), g.dim("I", i_size);
    g.dyn("S");
    const Value h = g.in("h", "bf16", "S, 2*I"), x = g.in("x", "bf16", "S, K");
    g.out("d", "f32", "I, K", g.gemm(g.split(h, 1, piece), x, "S"));
    Buffers buffers;
    buffers["h"] = integer_tensor(Storage::bf16, {5, 2 * i_size}, 8);
    buffers["x"] = integer_tensor(Storage::bf16, {5, k}, 9);
    const Buffers out = run_or_fail(g.graph, buffers);
    const std::vector<double> hs = values_of(buffers["h"]), xs = values_of(buffers["x"]);
    const int64_t p = piece == 0 ? i_size : piece;
    for (int64_t i = 0; i < i_size; ++i)
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0;
        for (int64_t s = 0; s < 5; ++s) sum += hs[s * 2 * i_size + i / p * 2 * p + p + i % p] * xs[s * k + j];
        CHECK(load_one(out.at("d"), i * k + j) == sum);
      }
  }
}

TEST_CASE("ragged contraction over packed rows and over aligned columns") {
  const int64_t n = 20, k = 12, rows = 50;
  GraphBuilder g;
  g.dim("E", 3), g.dim("N", n), g.dim("K", k);
  g.group("M", "E", ir::GroupSizes::counts);
  g.align("P", "M", 32);
  const Value dy = g.in("dy", "bf16", "M, N"), xt = g.in("xt", "bf16", "K, P");
  g.out("dw", "f32", "E, N, K", g.gemm(dy, xt, "M"));
  Buffers buffers;
  const int64_t counts[] = {5, 0, 33}, starts[] = {0, 5, 5}, places[] = {0, 32, 32};
  buffers["M.counts"] = tensor_of(Storage::i32, {3}, {5, 0, 33});
  buffers["dy"] = integer_tensor(Storage::bf16, {rows, n}, 10);
  buffers["xt"] = integer_tensor(Storage::bf16, {k, 128}, 11);
  const Buffers out = run_or_fail(g.graph, buffers);
  const std::vector<double> ds = values_of(buffers["dy"]), xs = values_of(buffers["xt"]);
  for (int64_t e = 0; e < 3; ++e)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0;
        for (int64_t m = 0; m < counts[e]; ++m) sum += ds[(starts[e] + m) * n + i] * xs[j * 128 + places[e] + m];
        CHECK(load_one(out.at("dw"), (e * n + i) * k + j) == sum);
      }
}

TEST_CASE("the bound is zero exactly where every partial sum is exact") {
  GraphBuilder g;
  g.dim("N", 8), g.dim("K", 512);
  g.dyn("S");
  g.out("y", "f32", "S, N", g.gemm(g.in("x", "bf16", "S, K"), g.in("w", "bf16", "N, K"), "K"));
  Buffers buffers;
  buffers["x"] = integer_tensor(Storage::bf16, {4, 512}, 1);
  buffers["w"] = integer_tensor(Storage::bf16, {8, 512}, 2);
  for (int64_t j = 0; j < 512; ++j) {
    store_one(buffers["x"], 512 + j, std::ldexp(load_one(buffers["x"], j), -40));  // a finer grid, as exact
    store_one(buffers["x"], 1024 + j, 0);
    store_one(buffers["x"], 1536 + j, j == 3 ? 1 + 0x1p-7 : std::ldexp(1.0, j % 30));  // a wide range
  }
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  const GemmResult& result = reference->gemms().begin()->second;
  for (int64_t col = 0; col < 8; ++col) {
    CHECK(result.radius(0, col) == 0);
    CHECK(result.radius(1, col) == 0);
    CHECK(result.radius(2, col) == 0);
    CHECK(result.radius(3, col) > 0);
  }
}

TEST_CASE("f32 sums in any order stay inside the bound") {
  const int64_t k = 1000;
  GraphBuilder g;
  g.dim("N", 16), g.dim("K", k);
  g.dyn("S");
  g.out("y", "f32", "S, N", g.gemm(g.in("x", "bf16", "S, K"), g.in("w", "bf16", "N, K"), "K"));
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::bf16, {16, k}, 1);
  buffers["w"] = normal_tensor(Storage::bf16, {16, k}, 2);
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  const GemmResult& result = reference->gemms().begin()->second;
  const std::vector<double> x = values_of(buffers["x"]), w = values_of(buffers["w"]);
  for (int64_t r = 0; r < 16; ++r)
    for (int64_t c = 0; c < 16; ++c) {
      float forward = 0, backward = 0;
      for (int64_t j = 0; j < k; ++j) {
        forward += static_cast<float>(x[r * k + j] * w[c * k + j]);
        backward += static_cast<float>(x[r * k + k - 1 - j] * w[c * k + k - 1 - j]);
      }
      const double exact = result.c[r * 16 + c], radius = result.radius(r, c);
      CHECK(std::fabs(forward - exact) <= radius);
      CHECK(std::fabs(backward - exact) <= radius);
      // … and the bound is no more than a few parts in ten thousand of the largest possible sum.
      CHECK(radius < 2e-4 * static_cast<double>(k));
    }
}

}  // namespace
}  // namespace epifuse::interpreter
