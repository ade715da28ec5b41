// Gradients over names: through split and join, and of values that lie over fewer names than f.
#include <random>

#include "compiler/lowering/differentiate.h"
#include "tests/lowering/gradient_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

int count(const ir::Graph& graph, ir::Op op) {
  int result = 0;
  for (const ir::Node& node : graph.nodes) result += node.op == op;
  return result;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("through a split, by pieces: each element of the whole has its own gradient") {
  constexpr int64_t rows = 3, half = 64;
  for (const int64_t piece : {0, 1, 8, 32}) {
    const std::string pieces = piece == 0 ? "" : fmt::format(", {}", piece);
    const Derived derived(
        fmt::format("dim I = 64\ndyn S\nin pre : f32[S, 2*I]\nin bias : f32[2*I]\nin prob : f32[S]\nin c : f32\n"
                    "in d : f32[S, I]\nh = pre * c + bias\ngate, up = split(h{0})\nv = swiglu(gate, up) * prob\n"
                    "dpre, dbias, dprob, dc, dup = grad(v, d, pre, bias, prob, c, up)\n"
                    "out dpre : f32[S, 2*I] = dpre\nout dbias : f32[S, 2*I] = dbias\nout dprob : f32[S, I] = dprob\n"
                    "out dc : f32[S, 2*I] = dc\nout dup : f32[S, I] = dup",
                    pieces));
    INFO("pieces of " << piece << "\n" << ir::print(derived.simplified));
    interpreter::Buffers buffers;
    buffers["pre"] = normal_tensor(Storage::f32, {rows, 2 * half}, 1);
    buffers["bias"] = normal_tensor(Storage::f32, {2 * half}, 2);
    buffers["prob"] = normal_tensor(Storage::f32, {rows}, 3);
    buffers["c"] = tensor_of(Storage::f32, {}, {1.5});
    buffers["d"] = normal_tensor(Storage::f32, {rows, half}, 4);
    const std::vector<double> pre = values_of(buffers["pre"]), bias = values_of(buffers["bias"]),
                              prob = values_of(buffers["prob"]), d = values_of(buffers["d"]);
    for (const ir::Graph* graph : {&derived.graph, &derived.simplified}) {
      const Columns got = evaluate(*graph, buffers);
      bool right = true;
      const auto close = [&](double value, double expected) {
        right = right && std::fabs(value - expected) <= 1e-12 * (std::fabs(value) + std::fabs(expected));
      };
      for (int64_t s = 0; s < rows; ++s)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t p = piece == 0 ? half : piece;
          const auto place = [&](int64_t part) { return s * 2 * half + (i / p * 2 + part) * p + i % p; };
          const auto input = [&](int64_t part) { return pre[place(part)] * 1.5 + bias[place(part) % (2 * half)]; };
          const double g = input(0), u = input(1), z = sigmoid(g), t = d[s * half + i] * prob[s];
          const double by_gate = t * u * (z + g * z * (1 - z)), by_up = t * g * z;
          close(got.at("dbias")[place(0)], by_gate);
          close(got.at("dbias")[place(1)], by_up);
          close(got.at("dpre")[place(0)], by_gate * 1.5);
          close(got.at("dpre")[place(1)], by_up * 1.5);
          close(got.at("dc")[place(0)], by_gate * pre[place(0)]);
          close(got.at("dc")[place(1)], by_up * pre[place(1)]);
          close(got.at("dprob")[s * half + i], d[s * half + i] * g * z * u);
          close(got.at("dup")[s * half + i], by_up);
        }
      CHECK(right);
    }
  }
}

TEST_CASE("a half that f does not use has the gradient 0") {
  const Derived derived(
      "dim I = 8\ndyn S\nin pre : f32[S, 2*I]\nin d : f32[S, I]\ngate, up = split(pre)\nv = exp(up)\n"
      "out dpre : f32[S, 2*I] = grad(v, d, pre)");
  interpreter::Buffers buffers;
  buffers["pre"] = normal_tensor(Storage::f32, {2, 16}, 1);
  buffers["d"] = normal_tensor(Storage::f32, {2, 8}, 2);
  for (const ir::Graph* graph : {&derived.graph, &derived.simplified}) {
    const std::vector<double> got = evaluate(*graph, buffers).at("dpre"), pre = values_of(buffers["pre"]),
                              d = values_of(buffers["d"]);
    for (size_t i = 0; i < 16; ++i) {
      CHECK(got[2 * 8 * (i / 8) + i % 8] == 0);
      const size_t up = 2 * 8 * (i / 8) + 8 + i % 8;
      CHECK(got[up] == Approx(d[i] * std::exp(pre[up])).epsilon(1e-12));
    }
  }
}

TEST_CASE("through a join, and through both back to where it was split") {
  const Derived derived(
      "dim I = 16\ndyn S\nin a : f32[S, I]\nin b : f32[S, I]\nin d : f32[S, 2*I]\nv = square(join(a, b, 8))\n"
      "da, db = grad(v, d, a, b)\nout da : f32[S, I] = da\nout db : f32[S, I] = db");
  interpreter::Buffers buffers;
  buffers["a"] = normal_tensor(Storage::f32, {1, 16}, 1);
  buffers["b"] = normal_tensor(Storage::f32, {1, 16}, 2);
  buffers["d"] = normal_tensor(Storage::f32, {1, 32}, 3);
  const Columns got = evaluate(derived.simplified, buffers);
  const std::vector<double> a = values_of(buffers["a"]), b = values_of(buffers["b"]), d = values_of(buffers["d"]);
  for (size_t i = 0; i < 16; ++i) {
    CHECK(got.at("da")[i] == Approx(2 * a[i] * d[i / 8 * 16 + i % 8]).epsilon(1e-12));
    CHECK(got.at("db")[i] == Approx(2 * b[i] * d[i / 8 * 16 + 8 + i % 8]).epsilon(1e-12));
  }

  // Split and joined again, nothing moves: the gradient is that of the square, and no split is left.
  const Derived round_trip(
      "dim I = 16\ndyn S\nin v : f32[S, 2*I]\nin d : f32[S, 2*I]\nf, s = split(v)\nw = square(join(f, s))\n"
      "out dv : f32[S, 2*I] = grad(w, d, v)");
  CHECK(count(round_trip.simplified, ir::Op::split) == 0);
  CHECK(count(round_trip.simplified, ir::Op::join) == 0);
  // A value joined with itself: each half of the seed counts, at its own place.
  const Derived twice(
      "dim I = 16\ndyn S\nin a : f32[S, I]\nin d : f32[S, 2*I]\nout da : f32[S, I] = grad(join(a, a), d, a)");
  const std::vector<double> both = evaluate(twice.graph, buffers).at("da");
  for (size_t i = 0; i < 16; ++i) CHECK(both[i] == d[i] + d[16 + i]);
}

TEST_CASE("a gradient has the names of f, of its seed and of x, whatever it depends on") {
  // d(x + b)/dx is 1 wherever x and b meet, and a sum of it counts every such place.
  const Derived derived(
      "dim N = 5\ndyn S\nin x : f32[S]\nin b : f32[N]\nv = x + b\ng = grad(v, 1, x)\nout g : f32[S, N] = g\n"
      "out rows : f32[S] = sum(g)\nout all : f32 = sum(g)");
  interpreter::Buffers buffers;
  buffers["x"] = normal_tensor(Storage::f32, {3}, 1);
  buffers["b"] = normal_tensor(Storage::f32, {5}, 2);
  for (const ir::Graph* graph : {&derived.graph, &derived.simplified}) {
    const Columns got = evaluate(*graph, buffers);
    if (graph == &derived.graph) CHECK(got.at("g") == std::vector<double>(15, 1));
    CHECK(got.at("rows") == std::vector<double>(3, 5));
    CHECK(got.at("all") == std::vector<double>(1, 15));
  }
}

TEST_CASE("values of groups, rows and columns") {
  const Derived derived(
      "dim E = 2, N = 4\ngroup M by E counts\nin h : f32[M, N]\nin alpha : f32[E]\nin prob : f32[M]\n"
      "in bias : f32[E, N]\nin d : f32[M, N]\nv = (h * alpha + bias) * prob\n"
      "dh, da, dp, db = grad(v, d, h, alpha, prob, bias)\nout dh : f32[M, N] = dh\nout da : f32[M, N] = da\n"
      "out dp : f32[M] = sum(dp)\nout db : f32[E, N] = sum(db)");
  interpreter::Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {2}, {1, 2});
  buffers["h"] = integer_tensor(Storage::f32, {3, 4}, 1);
  buffers["alpha"] = tensor_of(Storage::f32, {2}, {2, 3});
  buffers["prob"] = tensor_of(Storage::f32, {3}, {1, -2, 4});
  buffers["bias"] = integer_tensor(Storage::f32, {2, 4}, 2);
  buffers["d"] = integer_tensor(Storage::f32, {3, 4}, 3);
  const std::vector<double> h = values_of(buffers["h"]), bias = values_of(buffers["bias"]), d = values_of(buffers["d"]);
  const double alpha[] = {2, 3}, prob[] = {1, -2, 4};
  std::vector<double> dh, da, dp(3), db(8);
  for (size_t m = 0; m < 3; ++m)
    for (size_t n = 0; n < 4; ++n) {
      const size_t i = 4 * m + n, e = m > 0;
      dh.push_back(d[i] * prob[m] * alpha[e]);
      da.push_back(d[i] * prob[m] * h[i]);
      dp[m] += d[i] * (h[i] * alpha[e] + bias[4 * e + n]);
      db[4 * e + n] += d[i] * prob[m];
    }
  for (const ir::Graph* graph : {&derived.graph, &derived.simplified}) {
    const Columns got = evaluate(*graph, buffers);
    CHECK(got.at("dh") == dh);
    CHECK(got.at("da") == da);
    CHECK(got.at("dp") == dp);
    CHECK(got.at("db") == db);
  }
}

TEST_CASE("a gradient of a gradient, through a split") {
  // v = gate * up: dpre = d * (up, gate), so the gradient of square(dpre) by pre is 2 e d^2 (gate, up): 2 e d dpre with
  // the halves exchanged.
  const Derived derived(
      "dim I = 4\ndyn S\nin pre : f32[S, 2*I]\nin d : f32[S, I]\nin e : f32[S, 2*I]\ngate, up = split(pre)\n"
      "v = gate * up\ng = grad(v, d, pre)\nout h : f32[S, 2*I] = grad(square(g), e, pre)");
  interpreter::Buffers buffers;
  buffers["pre"] = integer_tensor(Storage::f32, {1, 8}, 1);
  buffers["d"] = integer_tensor(Storage::f32, {1, 4}, 2);
  buffers["e"] = integer_tensor(Storage::f32, {1, 8}, 3);
  const std::vector<double> got = evaluate(derived.simplified, buffers).at("h"), pre = values_of(buffers["pre"]),
                            d = values_of(buffers["d"]), e = values_of(buffers["e"]);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(got[i] == 2 * e[4 + i] * d[i] * d[i] * pre[i]);
    CHECK(got[4 + i] == 2 * e[i] * d[i] * d[i] * pre[4 + i]);
  }
}

TEST_CASE("what a backward epilogue costs per element") {
  // t = d * prob, t * up and t * silu; gate * sigmoid and the function itself; s + silu * (1 - s), times t * up; d * v.
  const Derived derived(
      "dim I = 32\ndyn S\nin pre : f32[S, 2*I]\nin prob : f32[S]\nin d : f32[S, I]\ngate, up = split(pre)\n"
      "v = swiglu(gate, up) * prob\ndpre, dprob = grad(v, d, pre, prob)\nout dpre : f32[S, 2*I] = dpre\n"
      "out dprob : f32[S, I] = dprob");
  INFO(ir::print(derived.simplified));
  CHECK(count(derived.simplified, ir::Op::mul) == 8);
  CHECK(count(derived.simplified, ir::Op::add) == 1);
  CHECK(count(derived.simplified, ir::Op::sub) == 1);
  CHECK(count(derived.simplified, ir::Op::sigmoid) == 1);
  CHECK(count(derived.simplified, ir::Op::neg) == 0);

  // Numbers of a chain are one number: e/2 + x exp(-z^2) / sqrt(2 pi), with x/2, z, e, z^2 from the function.
  const Derived normal(gradient_kernel("gelu_erf(x)", {"x"}));
  INFO(ir::print(normal.simplified));
  CHECK(count(normal.simplified, ir::Op::mul) == 8);
  CHECK(count(normal.simplified, ir::Op::exp) == 1);
  // 1 + 3 * (0.044715 x^2), whose bracket the function has.
  const Derived cubic(gradient_kernel("x + 0.044715 * x * x * x", {"x"}));
  INFO(ir::print(cubic.simplified));
  CHECK(count(cubic.simplified, ir::Op::mul) == 5);
}

TEST_CASE("the examples' gradients: derived, sound behind every pass, with the names they had") {
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  int gradients = 0;
  for (const std::string& name : kernel_names(program)) {
    const std::optional<ir::Graph> graph = resolve(program, name, {}, diagnostics);
    INFO(name << diagnostics.print());
    REQUIRE(graph);
    const ir::Graph derived = lowering::differentiate(*graph);
    CHECK(ir::verify(derived) == std::vector<std::string>{});
    CHECK(count(derived, ir::Op::grad) == 0);
    for (size_t i = 0; i < graph->outputs.size(); ++i)
      CHECK(graph->same_names(graph->nodes[static_cast<size_t>(graph->outputs[i].value)].shape,
                              derived.nodes[static_cast<size_t>(derived.outputs[i].value)].shape));
    gradients += count(*graph, ir::Op::grad);
    ir::Graph after = derived;
    for (const lowering::Pass& pass : lowering::passes()) {
      after = pass.run(std::move(after));
      CHECK(ir::verify(after) == std::vector<std::string>{});
    }
    // What was derived is printed and derived the same again.
    CHECK(ir::print(lowering::differentiate(*graph)) == ir::print(derived));
  }
  CHECK(gradients == 13);
}
