// Gradients of the activations of specs/lib against the published vectors.
#include <nlohmann/json.hpp>

#include "tests/lowering/gradient_support.h"
#include "tests/support/vectors.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The formula in double against the vectors' double, for constants that are f32 numbers. In the tail of a normal
// distribution a relative error of the argument counts x^2 times.
bool close(double got, double expected, double scale, double conditioning = 1) {
  if (std::isnan(expected)) return std::isnan(got);
  return std::fabs(got - expected) <= 0x1p-20 * conditioning * (std::fabs(expected) + scale) + 0x1p-126;
}

double tail(const std::string& name, double x) {
  return name.find("erf") != std::string::npos || name.find("tanh") != std::string::npos ? std::max(1., x * x / 16) : 1;
}

}  // namespace

TEST_CASE("derivatives of unary activations") {
  const auto vectors = read_vectors("numerics/activations.json", "unary");
  for (const auto& [name, rows] : vectors.items()) {
    const std::string call = name == "quick_gelu" ? "quick_gelu(x, 1.702)" : name + "(x)";
    const Derived derived(gradient_kernel(call, {"x"}));
    Columns inputs;
    for (const auto& row : rows) inputs["x"].push_back(f32_of_bits(row[0]));
    inputs["d"].assign(inputs["x"].size(), 1);
    const Columns got = evaluate_columns(derived.simplified, inputs);
    for (size_t i = 0; i < inputs["x"].size(); ++i) {
      const double x = inputs["x"][i], expected = rows[i][2];
      INFO(call << " at " << x << ": " << got.at("dx")[i] << ", expected " << expected);
      // The derivative has a zero where two terms of the size of y/x cancel.
      const double scale = x == 0 ? 0 : std::fabs(rows[i][1].get<double>() / x);
      CHECK(close(got.at("dx")[i], expected, scale, tail(name, x)));
    }
  }
}

TEST_CASE("gradients of gated activations with a probability") {
  const auto vectors = read_vectors("numerics/activations.json");
  for (const auto& [name, rows] : vectors["gated"].items()) {
    std::string call = name + "(gate, up)";
    if (vectors["gated_params"].contains(name)) {
      const auto& p = vectors["gated_params"][name];
      call = fmt::format("swiglu_oai(gate, up, {}, {}, {})", p["alpha"].get<double>(), p["limit"].get<double>(),
                         p["offset"].get<double>());
    }
    const Derived derived(gradient_kernel(call + " * prob", {"gate", "up", "prob"}));
    Columns inputs;
    for (const auto& row : rows) {
      inputs["gate"].push_back(f32_of_bits(row[0]));
      inputs["up"].push_back(f32_of_bits(row[1]));
      inputs["d"].push_back(f32_of_bits(row[2]));
      inputs["prob"].push_back(f32_of_bits(row[3]));
    }
    const Columns got = evaluate_columns(derived.simplified, inputs);
    for (size_t i = 0; i < inputs["d"].size(); ++i) {
      const double gate = inputs["gate"][i], seed = std::fabs(inputs["d"][i] * inputs["prob"][i]);
      INFO(call << " at " << gate << ", " << inputs["up"][i]);
      const double dgate = rows[i][5], dup = rows[i][6], dprob = rows[i][7];
      // dgate cancels where the activation is flat: the size of its terms is that of seed * (up + offset) * dup.
      const double scale = gate == 0 ? 0 : std::fabs(dup / gate) * (std::fabs(inputs["up"][i]) + 1);
      const double conditioning = tail(name, gate);
      INFO("dgate " << got.at("dgate")[i] << " (" << dgate << "), dup " << got.at("dup")[i] << " (" << dup
                    << "), dprob " << got.at("dprob")[i] << " (" << dprob << "), seed " << seed);
      CHECK(close(got.at("dgate")[i], dgate, scale, conditioning));
      CHECK(close(got.at("dup")[i], dup, 0, conditioning));
      CHECK(close(got.at("dprob")[i], dprob, 0, conditioning));
    }
  }
}

TEST_CASE("squared relu, and the clamped gated unit with its bounds included") {
  const auto rows = read_vectors("gelu_srelu.json", "rows");
  const Derived srelu(gradient_kernel("srelu(x)", {"x"}));
  for (const auto& row : rows)
    CHECK(evaluate_columns(srelu.simplified, {{"x", {row["x"]}}, {"d", {1}}}).at("dx")[0] ==
          row["dsrelu"].get<double>());

  const auto oai = read_vectors("swiglu_clamped_gptoss.json");
  const Derived derived(gradient_kernel("swiglu_oai(gate, up, 1.702, 7, 1)", {"gate", "up"}));
  int on_the_limit = 0;
  for (const auto& row : oai["rows"]) {
    const Columns got =
        evaluate_columns(derived.simplified, {{"gate", {row["gate"]}}, {"up", {row["up"]}}, {"d", {1}}});
    // At the limit the vectors have both rules; ours lets the gradient pass.
    const bool limit = row.contains("boundary");
    on_the_limit += limit;
    const double dgate = limit ? row["boundary"]["dgate_inclusive"] : row["dgate"];
    const double dup = limit ? row["boundary"]["dup_inclusive"] : row["dup"];
    INFO("gate " << row["gate"] << " up " << row["up"]);
    CHECK(close(got.at("dgate")[0], dgate, 0));
    CHECK(close(got.at("dup")[0], dup, 0));
  }
  CHECK(on_the_limit == 2);
}
