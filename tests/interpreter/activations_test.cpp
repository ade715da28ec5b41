// Small graphs for the published activation vectors: values, layouts of gate and up, probabilities.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/interpreter.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::f32_of_bits;
using test::GraphBuilder;
using test::read_vectors;
using test::tensor_of;
using test::Value;
using test::values_of;

// An f32 result against a double: the store rounds it, and the formula may round differently from the vectors' in the
// last digits of a double.
bool close(double got, double expected) {
  return std::fabs(got - expected) <= 0x1p-22 * std::fabs(expected) + 0x1p-149;
}

// 2^-20 is what the language promises. In the tail of erfc the rounding of 0.7071… to f32, 1.7e-8, counts x^2 times, so
// there the formula in f32 is no better; every other activation is held to 2^-20 everywhere.
double conditioning(const std::string& name, double x) {
  return name == "gelu_erf" || name == "geglu_erf" ? std::max(1.0, x * x / 32) : 1;
}

std::vector<double> run_columns(GraphBuilder& g, const std::vector<std::pair<std::string, std::vector<double>>>& inputs,
                                const Params& params = {}) {
  REQUIRE(ir::verify(g.graph).empty());
  Buffers buffers;
  for (const auto& [name, values] : inputs)
    buffers[name] = tensor_of(Storage::f32, {static_cast<int64_t>(values.size())}, values);
  Result<Buffers> outputs = run(g.graph, buffers, params);
  REQUIRE(outputs);
  return values_of(outputs->at("y"));
}

TEST_CASE("unary activations") {
  const auto vectors = read_vectors("numerics/activations.json", "unary");
  for (const auto& [name, rows] : vectors.items()) {
    GraphBuilder g;
    g.dyn("S");
    const Value x = g.in("x", "f32", "S");
    Value y = x;
    if (name == "silu") y = silu(x);
    if (name == "quick_gelu") y = quick_gelu(x, g.number(1.702));
    if (name == "gelu_tanh") y = gelu_tanh(x);
    if (name == "gelu_erf") y = gelu_erf(x);
    if (name == "relu") y = relu(x);
    if (name == "srelu") y = srelu(x);
    REQUIRE(y.id != x.id);
    g.out("y", "f32", "S", y);
    std::vector<double> in;
    for (const auto& row : rows) in.push_back(f32_of_bits(row[0]));
    const std::vector<double> out = run_columns(g, {{"x", in}});
    for (size_t i = 0; i < in.size(); ++i) {
      const double expected = rows[i][1];
      INFO(name << "(" << in[i] << ") is " << out[i] << ", expected " << expected);
      const double slack = 0x1p-20 * conditioning(name, in[i]) * std::fabs(expected) + 0x1p-126;
      CHECK((std::isnan(expected) ? std::isnan(out[i]) : std::fabs(out[i] - expected) <= slack));
    }
  }
}

TEST_CASE("gated activations with a probability") {
  const auto vectors = read_vectors("numerics/activations.json");
  for (const auto& [name, rows] : vectors["gated"].items()) {
    GraphBuilder g;
    g.dyn("S");
    const Value gate = g.in("gate", "f32", "S"), up = g.in("up", "f32", "S"), prob = g.in("prob", "f32", "S");
    Value y = gate;
    if (name == "swiglu") y = silu(gate) * up;
    if (name == "geglu_tanh") y = gelu_tanh(gate) * up;
    if (name == "geglu_erf") y = gelu_erf(gate) * up;
    if (name == "reglu") y = relu(gate) * up;
    if (vectors["gated_params"].contains(name)) {
      const auto& p = vectors["gated_params"][name];
      const Value limit = g.number(p["limit"]), low = g.number(-p["limit"].get<double>());
      y = quick_gelu(min(gate, limit), g.number(p["alpha"])) * (clamp(up, low, limit) + g.number(p["offset"]));
    }
    REQUIRE(y.id != gate.id);
    g.out("y", "f32", "S", y * prob);
    std::vector<double> gates, ups, probs;
    for (const auto& row : rows) {
      gates.push_back(f32_of_bits(row[0]));
      ups.push_back(f32_of_bits(row[1]));
      probs.push_back(f32_of_bits(row[3]));
    }
    const std::vector<double> out = run_columns(g, {{"gate", gates}, {"up", ups}, {"prob", probs}});
    for (size_t i = 0; i < out.size(); ++i) {
      const double expected = rows[i][4];
      INFO(name << "(" << gates[i] << ", " << ups[i] << ") is " << out[i] << ", expected " << expected);
      const double slack = 0x1p-20 * conditioning(name, gates[i]) * std::fabs(expected) + 0x1p-126;
      CHECK((std::isnan(expected) ? std::isnan(out[i]) : std::fabs(out[i] - expected) <= slack));
    }
  }
}

TEST_CASE("gelu_srelu.json and swiglu_clamped_gptoss.json") {
  const auto rows = read_vectors("gelu_srelu.json", "rows");
  std::vector<double> x;
  for (const auto& row : rows) x.push_back(row["x"]);
  for (const std::string name : {"gelu_erf", "silu", "srelu"}) {
    GraphBuilder g;
    g.dyn("S");
    const Value in = g.in("x", "f32", "S");
    g.out("y", "f32", "S", name == "silu" ? silu(in) : name == "srelu" ? srelu(in) : gelu_erf(in));
    const std::vector<double> out = run_columns(g, {{"x", x}});
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(name << " of " << x[i]);
      CHECK(std::fabs(out[i] - rows[i][name].get<double>()) <= 0x1p-20 * std::fabs(rows[i][name].get<double>()));
    }
  }

  const auto oai = read_vectors("swiglu_clamped_gptoss.json");
  GraphBuilder g;
  g.dyn("S");
  const Value gate = g.in("gate", "f32", "S"), up = g.in("up", "f32", "S");
  const Value alpha = g.param("alpha"), limit = g.param("limit", 1.0);
  g.out("y", "f32", "S",
        quick_gelu(min(gate, limit), alpha) * (clamp(up, g.map(ir::Op::neg, {limit}), limit) + g.number(1)));
  std::vector<double> gates, ups;
  for (const auto& row : oai["rows"]) gates.push_back(row["gate"]), ups.push_back(row["up"]);
  const std::vector<double> out = run_columns(g, {{"gate", gates}, {"up", ups}}, {{"alpha", 1.702}, {"limit", 7.0}});
  for (size_t i = 0; i < out.size(); ++i) {
    const double expected = oai["rows"][i]["out"];
    CHECK(std::fabs(out[i] - expected) <= 0x1p-20 * std::fabs(expected));
  }
}

TEST_CASE("gate and up in four layouts") {
  const auto expected = read_vectors("gate_up_layouts.json", "swiglu_out");
  const int picked[] = {0, 1, 31, 32, 33, 127};
  const std::tuple<std::string, int64_t, int> layouts[] = {
      {"concat_gate_up", 0, 0}, {"concat_up_gate", 0, 1}, {"pairs", 1, 0}, {"blocks_of_32", 32, 0}};
  for (const auto& [name, piece, gate_part] : layouts) {
    GraphBuilder g;
    g.dim("I", 128);
    g.dyn("S");
    const Value pre = g.in("pre", "f32", "S, 2*I");
    g.out("y", "f32", "S, I", silu(g.split(pre, gate_part, piece)) * g.split(pre, 1 - gate_part, piece));
    // The inverse brings back the input.
    g.out("back", "f32", "S, 2*I", g.join(g.split(pre, 0, piece), g.split(pre, 1, piece), piece));
    REQUIRE(ir::verify(g.graph).empty());
    Buffers buffers;
    buffers["pre"] =
        test::tensor_by(Storage::f32, {2, 256}, [](int64_t i) { return (37 * (i % 256) % 251 - 125) / 16.0; });
    const Result<Buffers> outputs = run(g.graph, buffers);
    REQUIRE(outputs);
    const std::vector<double> y = values_of(outputs->at("y"));
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < 6; ++i) CHECK(close(y[row * 128 + picked[i]], expected[name][i]));
    CHECK(outputs->at("back").bytes == buffers["pre"].bytes);
  }
}

TEST_CASE("a router probability weighs the bias too") {
  const auto v = read_vectors("bias_prob.json");
  GraphBuilder g;
  g.dim("E", 2), g.dim("H", 2), g.dim("I", 2);
  g.group("M", "E", ir::GroupSizes::counts);
  const Value h = g.in("h", "f32", "M, I"), w = g.in("w", "f32", "E, H, I"), b = g.in("b", "f32", "E, H"),
              p = g.in("p", "f32", "M");
  g.out("z", "f32", "M, H", (g.gemm(h, w, "I") + b) * p);
  REQUIRE(ir::verify(g.graph).empty());
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {2}, {1, 1});
  buffers["h"] = test::tensor_by(Storage::f32, {2, 2}, [&](int64_t i) { return v["h"][i / 2][i % 2].get<double>(); });
  buffers["w"] = test::tensor_by(Storage::f32, {2, 2, 2},
                                 [&](int64_t i) { return v["W2"][i / 4][i / 2 % 2][i % 2].get<double>(); });
  buffers["b"] = test::tensor_by(Storage::f32, {2, 2}, [&](int64_t i) { return v["b2"][i / 2][i % 2].get<double>(); });
  buffers["p"] = tensor_of(Storage::f32, {2}, v["p"]);
  const Result<Buffers> outputs = run(g.graph, buffers);
  REQUIRE(outputs);
  const std::vector<double> z = values_of(outputs->at("z"));
  CHECK(z[0] + z[2] == v["out"][0].get<double>());
  CHECK(z[1] + z[3] == v["out"][1].get<double>());
}

}  // namespace
}  // namespace epifuse::interpreter
