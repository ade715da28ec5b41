// The published vectors of activations and of products over experts without tokens, through both forms of a kernel.
// Activations take their arguments from one number for each row; the product beside them is zero.
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

constexpr int64_t columns = 64;

const std::vector<std::pair<std::string, std::string>> unary = {
    {"silu", "silu(r)"},           {"quick_gelu", "quick_gelu(r, 1.702)"},
    {"gelu_tanh", "gelu_tanh(r)"}, {"gelu_erf", "gelu_erf(r)"},
    {"relu", "relu(r)"},           {"srelu", "srelu(r)"}};

const std::vector<std::pair<std::string, std::string>> gated = {
    {"swiglu", "swiglu(gate, up)"},
    {"geglu_tanh", "geglu_tanh(gate, up)"},
    {"geglu_erf", "geglu_erf(gate, up)"},
    {"reglu", "reglu(gate, up)"},
    {"gptoss_swiglu", "swiglu_oai(gate, up, 1.702, 7, 1)"},
    {"clamped_swiglu_a1_b0_L10", "swiglu_oai(gate, up, 1, 10, 0)"}};

std::string kernel(const std::vector<std::string>& rows, const std::string& body) {
  std::string text =
      "use \"activations.epi\"\nkernel activations {\n  dim E = 1, K = 64, N = 64\n  group M by E\n"
      "  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n";
  for (const std::string& name : rows) text += fmt::format("  in {} : f32[M]\n", name);
  return text + "  z = gemm(x, w)\n" + body + "}\n";
}

// Relative to what: the argument of an exponential is rounded, which costs as much as the argument is large; that of a
// normal distribution x^2 times.
double conditioning(const std::string& name, double x) {
  const double magnitude = std::fabs(x);
  if (name.find("erf") != std::string::npos) return 2 + x * x;
  if (name.find("tanh") != std::string::npos) return 2 + 1.6 * magnitude + 0.0714 * magnitude * x * x;
  return 2 + 1.702 * magnitude;
}

// `scale`: the size of terms that cancel. `floor`: what multiplies a sigmoid, which is 0 below 2^-126.
bool close(double got, double expected, double scale, double floor, double conditioned) {
  if (std::isnan(expected)) return std::isnan(got);
  return std::fabs(got - expected) <=
         0x1p-20 * conditioned * (std::fabs(expected) + scale) + 0x1p-126 * std::max(1.0, floor);
}

Buffers zero_product(int64_t rows) {
  return {{"x", interpreter::make_tensor(Storage::bf16, {rows, columns})},
          {"w", interpreter::make_tensor(Storage::bf16, {1, columns, columns})},
          {"M.ends", tensor_of(Storage::i32, {1}, {static_cast<double>(rows)})}};
}

HostTensor column_of(const json& rows, size_t column) {
  std::vector<double> values;
  for (const json& row : rows) values.push_back(f32_of_bits(row[column]));
  const auto count = static_cast<int64_t>(values.size());
  return tensor_of(Storage::f32, {count}, values);
}

}  // namespace

TEST_CASE("activations of one number and their derivatives") {
  std::string body;
  for (const auto& [name, call] : unary)
    body += fmt::format(
        "  d_{0} = grad({1}, z + 1, r)\n  out y_{0} : f32[M, N] = {1} + z\n  out dy_{0} : f32[M, N] = "
        "d_{0}\n",
        name, call);
  const auto forms = compile_forms({{kernel({"r"}, body), {}}});
  const json file = vectors("numerics/activations.json");
  for (const auto& [name, call] : unary) {
    const json& rows = file["unary"][name];
    Buffers inputs = zero_product(static_cast<int64_t>(rows.size()));
    inputs["r"] = column_of(rows, 0);
    forms[0].run(inputs, [&, &name = name](const Buffers& out) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto at = static_cast<int64_t>(i) * columns;
        const double x = f32_of_bits(rows[i][0]), y = rows[i][1], dy = rows[i][2], conditioned = conditioning(name, x);
        const double got = interpreter::load_one(out.at("y_" + name), at);
        const double derivative = interpreter::load_one(out.at("dy_" + name), at + columns - 1);
        INFO(fmt::format("{}({}) is {}, wanted {}; derivative {}, wanted {}", name, x, got, y, derivative, dy));
        CHECK(close(got, y, 0, std::fabs(x), conditioned));
        CHECK(close(derivative, dy, x == 0 ? 0 : std::fabs(y / x), x * x, conditioned));
      }
    });
  }
  const json reported = vectors("gelu_srelu.json");
  std::vector<double> x;
  for (const json& row : reported["rows"]) x.push_back(row["x"]);
  Buffers inputs = zero_product(static_cast<int64_t>(x.size()));
  inputs["r"] = tensor_of(Storage::f32, {static_cast<int64_t>(x.size())}, x);
  forms[0].run(inputs, [&](const Buffers& out) {
    for (size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<int64_t>(i) * columns;
      const json& row = reported["rows"][i];
      for (const auto& [name, key] : {std::pair{"gelu_erf", "gelu_erf"},
                                      {"gelu_tanh", "gelu_tanh"},
                                      {"quick_gelu", "quick_gelu_1702"},
                                      {"silu", "silu"},
                                      {"srelu", "srelu"}}) {
        INFO(name << "(" << x[i] << ")");
        CHECK(close(interpreter::load_one(out.at(std::string("y_") + name), at), row[key], 0, std::fabs(x[i]),
                    conditioning(name, x[i])));
      }
      CHECK(interpreter::load_one(out.at("dy_srelu"), at) == row["dsrelu"].get<double>());
    }
  });
}

TEST_CASE("gated activations with a probability, and their derivatives") {
  std::vector<FormSpec> specs;
  for (size_t first = 0; first < gated.size(); first += 3) {
    std::string body;
    for (size_t i = first; i < first + 3; ++i)
      body += fmt::format(
          "  f_{0} = {1} * prob\n  g_{0}, u_{0}, p_{0} = grad(f_{0}, z + d, gate, up, prob)\n"
          "  out y_{0} : f32[M, N] = f_{0} + z\n  out dgate_{0} : f32[M, N] = g_{0}\n"
          "  out dup_{0} : f32[M, N] = u_{0}\n  out dprob_{0} : f32[M, N] = p_{0}\n",
          gated[i].first, gated[i].second);
    specs.push_back({kernel({"gate", "up", "d", "prob"}, body), {}});
  }
  const auto forms = compile_forms(specs);
  const json file = vectors("numerics/activations.json");
  for (size_t which = 0; which < gated.size(); ++which) {
    const std::string& name = gated[which].first;
    const json& rows = file["gated"][name];
    Buffers inputs = zero_product(static_cast<int64_t>(rows.size()));
    size_t column = 0;
    for (const char* input : {"gate", "up", "d", "prob"}) inputs[input] = column_of(rows, column++);
    forms[which / 3].run(inputs, [&](const Buffers& out) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const double gate = f32_of_bits(rows[i][0]), up = f32_of_bits(rows[i][1]), d = f32_of_bits(rows[i][2]);
        const double prob = f32_of_bits(rows[i][3]), conditioned = conditioning(name, gate);
        const double dup = rows[i][6], size = (std::fabs(gate) + 1) * (std::fabs(up) + 1) * (std::fabs(d * prob) + 1);
        // The derivative by the gate cancels where the activation is flat.
        const double cancels = gate == 0 ? 0 : std::fabs(dup / gate) * (std::fabs(up) + 1);
        const std::pair<const char*, double> outputs[] = {{"y_", 0}, {"dgate_", cancels}, {"dup_", 0}, {"dprob_", 0}};
        for (size_t k = 0; k < 4; ++k) {
          const double got =
              interpreter::load_one(out.at(outputs[k].first + name), static_cast<int64_t>(i) * columns + 5);
          const double expected = rows[i][4 + k];
          INFO(fmt::format("{}{}({}, {}) is {}, wanted {}", outputs[k].first, name, gate, up, got, expected));
          CHECK(close(got, expected, outputs[k].second, size * (std::fabs(gate) + 1), conditioned));
        }
      }
    });
  }
}

namespace {

struct Sums {
  double all = 0, absolute = 0, weighted = 0, first = 0, last = 0;
};

Sums sums_of(const HostTensor& tensor, int64_t from, int64_t rows) {
  Sums sums;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; ++n) {
      const double value = interpreter::load_one(tensor, (from + i) * columns + n);
      if (i == 0 && n == 0) sums.first = value;
      sums.last = value;
      sums.all += value;
      sums.absolute += std::fabs(value);
      sums.weighted += static_cast<double>((i + 1) * (n + 1)) * value;
    }
  return sums;
}

}  // namespace

TEST_CASE("products and weight gradients where experts have no tokens, in memory full of others'") {
  const std::string frame = "kernel experts {\n  dim E = 4, K = 64, N = 64\n  group M by E\n  in x : bf16[M, K]\n";
  const auto forms = compile_forms(
      {{frame + "  in w : bf16[E, N, K]\n  out y : f32[M, N] = gemm(x, w)\n}\n", {}},
       {frame +
            "  in dy : bf16[M, N]\n  v = gemm(dy, x)\n  out dw : f32[E, N, K] = v\n  out main : f32[E, N, K] += v\n}\n",
        {}}});
  const json file = vectors("empty_experts.json");
  for (const json& one : file["cases"]) {
    std::vector<double> ends;
    double rows = 0;
    for (const json& count : one["counts"]) ends.push_back(rows += count.get<double>());
    const auto m = static_cast<int64_t>(rows);
    Buffers inputs = {{"M.ends", tensor_of(Storage::i32, {4}, ends)}};
    inputs["x"] = tensor_by(Storage::bf16, {m, columns}, [](int64_t i) {
      return static_cast<double>((3 * (i / columns) + 5 * (i % columns)) % 7 - 3);
    });
    Buffers backward = inputs;
    inputs["w"] = tensor_by(Storage::bf16, {4, columns, columns}, [](int64_t i) {
      return static_cast<double>((2 * (i / columns % columns) + i % columns + i / (columns * columns)) % 5 - 2);
    });
    backward["dy"] = tensor_by(Storage::bf16, {m, columns}, [](int64_t i) {
      return static_cast<double>((i / columns + 2 * (i % columns)) % 3 - 1);
    });
    backward["main"] = tensor_by(Storage::f32, {4, columns, columns}, [](int64_t) { return 1.0; });
    forms[0].run(inputs, [&](const Buffers& out) {
      for (const json& expert : one["experts"]) {
        if (expert["tokens"] == 0) continue;
        const Sums sums = sums_of(out.at("y"), expert["row_start"], expert["tokens"]);
        CHECK(sums.all == expert["fwd_sum"].get<double>());
        CHECK(sums.absolute == expert["fwd_abs_sum"].get<double>());
        CHECK(sums.weighted == expert["fwd_weighted"].get<double>());
        CHECK(sums.first == expert["fwd_first"].get<double>());
        CHECK(sums.last == expert["fwd_last"].get<double>());
      }
    });
    forms[1].run(backward, [&](const Buffers& out) {
      for (const json& expert : one["experts"]) {
        const int64_t first = expert["expert"].get<int64_t>() * columns;
        const Sums sums = sums_of(out.at("dw"), first, columns);
        CHECK(sums.all == expert["wgrad_sum"].get<double>());
        CHECK(sums.absolute == expert["wgrad_abs_sum"].get<double>());
        CHECK(sums.weighted == expert["wgrad_weighted"].get<double>());
        CHECK(sums.first == expert["wgrad_00"].get<double>());
        CHECK(sums.last == expert["wgrad_last"].get<double>());
        for (int64_t i = first * columns; i < (first + columns) * columns; ++i) {
          const double value = interpreter::load_one(out.at("dw"), i);
          if (expert["tokens"] == 0) REQUIRE(interpreter::load_code(out.at("dw"), i) == 0);
          REQUIRE(interpreter::load_one(out.at("main"), i) == value + 1);
        }
      }
    });
  }
}
