// Derivatives of every operation: against finite differences at random points, and exactly at and around every kink.
#include "compiler/lowering/differentiate.h"

#include <limits>
#include <random>

#include "tests/lowering/gradient_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// Multiples of 2^-12, for exact steps.
std::vector<double> points(size_t count, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(std::round((low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53) * 0x1p12) *
                     0x1p-12);
  return result;
}

// How many of the points were judged.
int check_against_differences(const std::string& expression, const Columns& inputs,
                              const interpreter::Params& params = {}, const std::string& declared = "") {
  std::vector<std::string> names;
  Columns all = inputs;
  for (const auto& [name, values] : inputs) names.push_back(name);
  all["d"] = points(inputs.begin()->second.size(), -2, 2, 99);
  INFO(expression);
  const Derived derived(declared + gradient_kernel(expression, names));
  INFO(ir::print(derived.simplified));
  const Columns got = evaluate_columns(derived.graph, all, params);
  const Columns simplified = evaluate_columns(derived.simplified, all, params);
  int judged = 0, wrong = 0;
  for (const std::string& name : names) {
    const Differences expected = differences(derived.graph, all, name, params);
    for (size_t i = 0; i < expected.slope.size(); ++i) {
      if (!expected.smooth[i]) continue;
      ++judged;
      const double gradient = all["d"][i] * expected.slope[i];
      // The derivative's constants are f32 numbers, each good to 2^-24.
      const double slack = 0x1p-20 * std::fabs(all["d"][i]) * expected.scale[i];
      for (const Columns* columns : {&got, &simplified}) {
        const double value = columns->at("d" + name)[i];
        if (std::fabs(value - gradient) <= slack) continue;
        if (++wrong > 3) continue;
        std::string at;
        for (const auto& [other, values] : all) at += fmt::format(" {} = {}", other, values[i]);
        UNSCOPED_INFO("d" << name << " is " << value << ", differences give " << gradient << " at" << at);
      }
    }
  }
  CHECK(wrong == 0);
  return judged;
}

// The gradients of one kernel of scalars at one point, as f32[S] with S = 1.
Columns at(const Derived& derived, const std::map<std::string, double>& point) {
  Columns inputs;
  for (const auto& [name, value] : point) inputs[name] = {value};
  return evaluate_columns(derived.graph, inputs);
}

struct Kink {
  std::string expression;  // of x and y; the seed is 3
  double x, y, dx, dy;
};

}  // namespace

TEST_CASE("every differentiable operation at 200 random points") {
  struct Row {
    const char* expression;
    double low, high;
  };
  const Row rows[] = {
      {"x + y", -4, 4},
      {"x - y", -4, 4},
      {"x * y", -4, 4},
      {"x * x * y", -4, 4},
      {"x / y", 0.25, 4},
      {"-x * y", -4, 4},
      {"3 / (x * y)", 0.5, 4},
      {"x * y / 3", -4, 4},
      {"select(x < y, x * y, x + 2 * y)", -4, 4},
      {"select(x <= y, exp(x), y)", -4, 4},
      {"select(x == y, x, y * y)", -4, 4},
      {"select(x != y, x * x, y)", -4, 4},
      {"min(x, y) * y", -4, 4},
      {"max(x, y) * x", -4, 4},
      {"min(x * x, y)", -4, 4},
      {"clamp(x, -1, y) * y", -4, 4},
      {"clamp(x, y, 2) * x", -4, 4},
      {"clamp(1, x, y)", -4, 4},
      {"abs(x) * y", -4, 4},
      {"exp(x * y)", -2, 2},
      {"log(x) * log(y * y)", 0.25, 4},
      {"tanh(x * y)", -2, 2},
      {"sigmoid(x) * y", -4, 4},
      {"sigmoid(x * y)", -2, 2},
      {"erf(x * y)", -1.5, 1.5},
      {"erfc(x) / y", 0.5, 2},
      {"sqrt(x * y)", 0.25, 4},
      {"rsqrt(x) * y", 0.25, 4},
  };
  for (const Row& row : rows) {
    INFO(row.expression);
    const Columns inputs = {{"x", points(200, row.low, row.high, 1)}, {"y", points(200, row.low, row.high, 2)}};
    CHECK(check_against_differences(row.expression, inputs) >= 360);
  }
}

TEST_CASE("at every kink the argument chosen has the gradient, the first on ties") {
  // The seed is 3; where a comparison sees NaN the gradient passes.
  const Kink kinks[] = {
      {"min(x, y)", 2, 2, 3, 0},
      {"min(x, y)", 1, 2, 3, 0},
      {"min(x, y)", 3, 2, 0, 3},
      {"min(x, y)", no_number, 2, 3, 0},
      {"min(x, y)", 0., -0., 3, 0},
      {"max(x, y)", 2, 2, 3, 0},
      {"max(x, y)", 1, 2, 0, 3},
      {"max(x, y)", 3, 2, 3, 0},
      {"max(x, y)", no_number, 2, 3, 0},
      {"max(x, y)", 2, no_number, 3, 0},
      {"max(x, x) * y", 2, 1, 3, 6},
      {"min(x, x + y)", 2, 0, 3, 0},
      {"clamp(x, -7, 7) + y", 7, 0, 3, 3},  // inclusive, both
      {"clamp(x, -7, 7) + y", -7, 0, 3, 3},
      {"clamp(x, -7, 7) + y", std::nextafter(7.f, 8.f), 0, 0, 3},
      {"clamp(x, -7, 7) + y", std::nextafter(-7.f, -8.f), 0, 0, 3},
      {"clamp(x, -7, 7) + y", std::nextafter(7.f, 0.f), 0, 3, 3},
      {"clamp(x, -7, 7) + y", no_number, 0, 3, 3},
      {"clamp(x, -7, 7) + y", infinity, 0, 0, 3},
      {"clamp(x, y, 7)", 2, 2, 3, 0},
      {"clamp(x, y, 7)", 1, 2, 0, 3},
      {"clamp(x, y, 7)", 1, 7, 0, 3},
      {"clamp(x, y, 7)", 1, 8, 0, 0},
      {"clamp(x, y, 7)", 8, 9, 0, 0},
      {"clamp(x, 0, y)", 2, 2, 3, 0},
      {"clamp(x, 0, y)", 3, 2, 0, 3},
      {"clamp(x, 0, y)", 3, 0, 0, 3},
      {"clamp(x, 0, y)", -1, 0, 0, 0},
      {"clamp(x, 0, y)", 1, -1, 0, 3},
      {"clamp(x, 0, y)", -1, -1, 0, 3},
      {"clamp(x, y, y)", 2, 2, 3, 0},
      {"abs(x) + y", 0, 0, 0, 3},
      {"abs(x) + y", -0., 0, 0, 3},
      {"abs(x) + y", 1e-30, 0, 3, 3},
      {"abs(x) + y", -1e-30, 0, -3, 3},
      {"abs(x) + y", no_number, 0, 3, 3},
      {"select(x < y, 2 * x, y)", 1, 2, 6, 0},
      {"select(x < y, 2 * x, y)", 2, 2, 0, 3},
      {"select(x, x, y)", 0, 1, 0, 3},
      {"select(x, x, y)", -0., 1, 0, 3},
      {"select(x, x, y)", 1e-40, 1, 3, 0},
      {"select(x, x, y)", no_number, 1, 3, 0},
      {"max(0, x) + y", 0, 0, 0, 3},
      {"max(0, x) + y", -0., 0, 0, 3},
      {"max(0, x) + y", 1e-40, 0, 3, 3},
      {"max(0, x) + y", -1, 0, 0, 3},
      {"max(0, x) + y", no_number, 0, 3, 3},
      {"max(x, 0) + y", 0, 0, 3, 3},
      {"min(x, 7) + y", 7, 0, 3, 3},
      {"min(7, x) + y", 7, 0, 0, 3},
      {"min(7, x) + y", no_number, 0, 3, 3},
      {"(x < y) * 2 + x", 2, 2, 3, 0},
      {"cast(x, bf16) + cast(y, e4m3)", 1.001, 1e9, 3, 3},
  };
  for (const Kink& kink : kinks) {
    const Derived derived(gradient_kernel(kink.expression, {"x", "y"}));
    INFO(kink.expression << " at " << kink.x << ", " << kink.y << "\n" << ir::print(derived.graph));
    for (const ir::Graph* graph : {&derived.graph, &derived.simplified}) {
      const Columns got = evaluate_columns(*graph, {{"x", {kink.x}}, {"y", {kink.y}}, {"d", {3}}});
      CHECK(got.at("dx")[0] == kink.dx);
      CHECK(got.at("dy")[0] == kink.dy);
    }
  }
}

TEST_CASE("a branch that is not taken counts nothing, whatever it holds") {
  // 0 * NaN and 0 * infinity are NaN: masks must not be factors.
  const Derived untaken(gradient_kernel("select(x > 0, log(x) / x, y)", {"x", "y"}));
  for (const double x : {0., -1., -infinity}) {
    INFO(x);
    CHECK(at(untaken, {{"x", x}, {"y", 1}, {"d", 2}}).at("dx")[0] == 0);
    CHECK(at(untaken, {{"x", x}, {"y", 1}, {"d", 2}}).at("dy")[0] == 2);
  }
  const Derived relu(gradient_kernel("max(0, x) * y", {"x", "y"}));
  CHECK(at(relu, {{"x", -1}, {"y", infinity}, {"d", 1}}).at("dx")[0] == 0);
  CHECK(at(relu, {{"x", -1}, {"y", 1}, {"d", no_number}}).at("dx")[0] == 0);
  CHECK(at(relu, {{"x", 1}, {"y", 1}, {"d", infinity}}).at("dx")[0] == infinity);
  // Two masks on two ways, neither taken.
  const Derived both(gradient_kernel("(min(x, 1) + max(x, 9)) * y", {"x", "y"}));
  CHECK(at(both, {{"x", 5}, {"y", infinity}, {"d", 1}}).at("dx")[0] == 0);
  CHECK(at(both, {{"x", 0}, {"y", 2}, {"d", 1}}).at("dx")[0] == 2);
  CHECK(at(both, {{"x", 10}, {"y", 2}, {"d", 1}}).at("dx")[0] == 2);
}

TEST_CASE("a value behind another: each has its own gradient, over all ways") {
  const Derived derived(
      "dyn S\nin d : f32[S]\nin x : f32[S]\nu = x * x\nv = exp(u) * x + u\n"
      "du, dx = grad(v, d, u, x)\nonly = grad(v, d, u)\n"
      "out du : f32[S] = du\nout dx : f32[S] = dx\nout only : f32[S] = only");
  const double x = 0.75, u = x * x, d = 2;
  const Columns got = at(derived, {{"x", x}, {"d", d}});
  CHECK(got.at("du")[0] == Approx(d * (std::exp(u) * x + 1)).epsilon(1e-12));
  CHECK(got.at("dx")[0] == Approx(d * ((std::exp(u) * x + 1) * 2 * x + std::exp(u))).epsilon(1e-12));
  CHECK(got.at("only")[0] == got.at("du")[0]);
}

TEST_CASE("f itself, a value that f depends on by a condition alone, ways that cancel") {
  const Derived derived(
      "dyn S\nin d : f32[S]\nin x : f32[S]\nin y : f32[S]\nv = select(x < 1, y, 2 * y) + (x - x)\n"
      "dv, dx, dy = grad(v, d, v, x, y)\nout dv : f32[S] = dv\nout dx : f32[S] = dx\nout dy : f32[S] = dy");
  const Columns got = at(derived, {{"x", 3}, {"y", 5}, {"d", 7}});
  CHECK(got.at("dv")[0] == 7);
  CHECK(got.at("dx")[0] == 0);
  CHECK(got.at("dy")[0] == 14);
}

TEST_CASE("a gradient of a gradient") {
  // v = x^3 y: dv/dx = 3 x^2 y, d2v/dx2 = 6 x y, d2v/dxdy = 3 x^2.
  const Derived derived(
      "dyn S\nin x : f32[S]\nin y : f32[S]\nv = x * x * x * y\ng = grad(v, 1, x)\nh, m = grad(g, 1, x, y)\n"
      "t = grad(h, 1, x)\nout g : f32[S] = g\nout h : f32[S] = h\nout m : f32[S] = m\nout t : f32[S] = t");
  const Columns got = at(derived, {{"x", 3}, {"y", 5}});
  CHECK(got.at("g")[0] == 135);
  CHECK(got.at("h")[0] == 90);
  CHECK(got.at("m")[0] == 27);
  CHECK(got.at("t")[0] == 30);
}

TEST_CASE("activations against finite differences") {
  const Columns two = {{"x", points(200, -6, 6, 3)}, {"y", points(200, -6, 6, 4)}};
  const Columns one = {{"x", points(200, -6, 6, 5)}};
  for (const char* expression : {"silu(x)", "gelu_tanh(x)", "gelu_erf(x)", "srelu(x)", "relu(x)",
                                 "quick_gelu(x, 1.702)", "fp8_scale(x)", "0.5 * x * (1 + tanh(0.79 * x))"})
    CHECK(check_against_differences(expression, one) >= 190);
  for (const char* expression : {"swiglu(x, y)", "geglu_tanh(x, y)", "geglu_erf(x, y)", "reglu(x, y)",
                                 "swiglu_oai(x, y, 1.702, 4, 1)", "swiglu_oai(x, y, 1, 5, 0)"})
    CHECK(check_against_differences(expression, two) >= 380);
  CHECK(check_against_differences("swiglu_oai(x, y, alpha, limit, offset)", two,
                                  {{"alpha", 1.75}, {"limit", 4}, {"offset", 1}},
                                  "param alpha\nparam limit\nparam offset\n") >= 380);
}

namespace {

// A random pointwise expression of x, y, z that stays in range.
std::string random_expression(std::mt19937_64& random, int depth) {
  if (depth == 0) {
    const char* leaves[] = {"x", "y", "z", "x", "y", "z", "0.5", "-1.25", "2"};
    return leaves[random() % 9];
  }
  const auto inner = [&] { return random_expression(random, static_cast<int>(random() % static_cast<size_t>(depth))); };
  switch (random() % 18) {
    case 0:
    case 1: return "(" + inner() + " + " + inner() + ")";
    case 2: return "(" + inner() + " - " + inner() + ")";
    case 3:
    case 4:
    case 5: return "(" + inner() + " * " + inner() + ")";
    case 6: return "(" + inner() + " / (1.5 + abs(" + inner() + ")))";
    case 7: return "(-(" + inner() + "))";
    case 8: return "select(" + inner() + " < " + inner() + ", " + inner() + ", " + inner() + ")";
    case 9: return "min(" + inner() + ", " + inner() + ")";
    case 10: return "max(" + inner() + ", " + inner() + ")";
    case 11: return "clamp(" + inner() + ", -1, " + inner() + ")";
    case 12: return "tanh(" + inner() + ")";
    case 13: return "sigmoid(" + inner() + ")";
    case 14: return "exp(min(1, " + inner() + "))";
    case 15: return "erf(" + inner() + ")";
    case 16: return "rsqrt(1 + square(" + inner() + "))";
    default: return "abs(" + inner() + ")";
  }
}

}  // namespace

TEST_CASE("200 random expressions against finite differences") {
  std::mt19937_64 random(20);
  int judged = 0, made = 0;
  while (made < 200) {
    const std::string expression = random_expression(random, 5) + " + 0 * (x + y + z)";
    if (expression.size() < 60) continue;
    ++made;
    const uint64_t seed = random();
    judged += check_against_differences(
        expression,
        {{"x", points(8, -2, 2, seed)}, {"y", points(8, -2, 2, seed + 1)}, {"z", points(8, -2, 2, seed + 2)}});
  }
  CHECK(judged >= 200 * 24 * 3 / 4);
}
