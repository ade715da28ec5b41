// Cases of activations, layouts of gate and up, biases and probabilities, from the text of a spec to what is stored: on
// the interpreter in one program, through the kernels on a GPU in another (spec_runner.h). README.md says what each is
// about.
#include <cmath>
#include <nlohmann/json.hpp>

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

// A result in f32 of functions that are good to 2^-20, the argument of one of which has a rounding error that counts
// `conditioning` times.
bool close(double got, double expected, double conditioning = 1) {
  return std::fabs(got - expected) <= 0x1p-20 * std::max(1.0, conditioning) * std::fabs(expected) + 0x1p-149;
}

// One group whose rows are `row` and nothing else, and a weight that multiplies it by the numbers of a row: the product
// has the column c of `values` in every row, exactly.
Buffers product_of(const std::vector<double>& values, int64_t rows) {
  const auto columns = static_cast<int64_t>(values.size());
  Buffers buffers = {{"x", interpreter::make_tensor(Storage::bf16, {rows, 8})},
                     {"w", interpreter::make_tensor(Storage::bf16, {1, columns, 8})},
                     {"M.ends", tensor_of(Storage::i32, {1}, {static_cast<double>(rows)})}};
  for (int64_t m = 0; m < rows; ++m) store_one(buffers["x"], m * 8, 1);
  for (int64_t c = 0; c < columns; ++c) store_one(buffers["w"], c * 8, values[static_cast<size_t>(c)]);
  return buffers;
}

std::string glu_spec(const std::string& name, const std::string& declared, const std::string& statements) {
  return "use \"activations.epi\"\nkernel " + name + " {\n  dim E = 1, K = 8, I = 128\n  group M by E\n" + declared +
         "  in x : bf16[M, K]\n  in w : bf16[E, 2*I, K]\n" + statements + "}\n";
}

std::vector<double> columns_of_a_half(double value) { return std::vector<double>(256, value); }

}  // namespace

TEST_CASE(
    "B60 B64: the clamped gated unit cuts the gate from above, up on both sides; on a limit the gradient passes") {
  const auto oai = vectors("swiglu_clamped_gptoss.json");
  const auto& rows = oai["rows"];
  REQUIRE(rows.size() >= 12);
  // The seed comes through the gemm, whose product is zero here.
  const std::string spec =
      "use \"activations.epi\"\nkernel clamped {\n  dim E = 1, K = 8, I = 64\n  group M by E\n  param alpha = 1.702\n"
      "  param limit = 7\n  in x : bf16[M, K]\n  in w : bf16[E, I, K]\n  in pre : bf16[M, 2*I]\n"
      "  gate, up = split(pre, 1)\n  act = swiglu_oai(gate, up, alpha, limit, 1)\n"
      "  dh = grad(act, gemm(x, w) + 1, pre)\n  out act : f32[M, I] = act\n  out dh : f32[M, 2*I] = dh\n}\n";
  Buffers buffers = {{"x", interpreter::make_tensor(Storage::bf16, {3, 8})},
                     {"w", interpreter::make_tensor(Storage::bf16, {1, 64, 8})},
                     {"M.ends", tensor_of(Storage::i32, {1}, {3})}};
  buffers["pre"] = tensor_by(Storage::bf16, {3, 128}, [&](int64_t i) {
    return rows[static_cast<size_t>(i / 2) % rows.size()][i % 2 == 0 ? "gate" : "up"].get<double>();
  });
  const Buffers out = run_spec(spec, buffers);
  int on_a_limit = 0, below = 0;
  for (int64_t i = 0; i < 3 * 64; ++i) {
    const auto& row = rows[static_cast<size_t>(i) % rows.size()];
    const double gate = row["gate"], conditioning = 2 + 1.702 * std::fabs(gate);
    INFO("gate " << gate << " up " << row["up"]);
    const bool limit = row.contains("boundary");
    on_a_limit += limit, below += gate < -7;
    CHECK(close(load_one(out.at("act"), i), row["out"], conditioning));
    CHECK(
        close(load_one(out.at("dh"), 2 * i), limit ? row["boundary"]["dgate_inclusive"] : row["dgate"], conditioning));
    CHECK(
        close(load_one(out.at("dh"), 2 * i + 1), limit ? row["boundary"]["dup_inclusive"] : row["dup"], conditioning));
  }
  CHECK(on_a_limit >= 2);
  CHECK(below >= 2);
}

TEST_CASE("B61 B62: four layouts of gate and up, of the weight and its bias together") {
  const auto expected = vectors("gate_up_layouts.json")["swiglu_out"];
  // The vectors' numbers, of which the bias brings a part.
  const auto number = [](int64_t c) { return (37 * c % 251 - 125) / 16.0; };
  const auto part = [](int64_t c) { return (c % 5 - 2) / 16.0; };
  const auto spec = [](const std::string& names, const std::string& deal) {
    return glu_spec("layout", "  in b : f32[E, 2*I]\n",
                    "  " + names + " = split(gemm(x, w) + b" + deal + ")\n  out y : f32[M, I] = swiglu(gate, up)\n");
  };
  const auto run = [&](const std::string& names, const std::string& deal, int64_t first) {
    std::vector<double> weights(256), bias(256);
    for (int64_t c = 0; c < 256; ++c) {
      const int64_t from = (c + first) % 256;
      weights[static_cast<size_t>(c)] = number(from) - part(from);
      bias[static_cast<size_t>(c)] = part(from);
    }
    Buffers buffers = product_of(weights, 3);
    buffers["b"] = tensor_of(Storage::f32, {1, 256}, bias);
    return run_spec(spec(names, deal), buffers).at("y");
  };
  constexpr int64_t picked[] = {0, 1, 31, 32, 33, 127};
  const std::tuple<const char*, const char*, const char*> layouts[] = {{"concat_gate_up", "gate, up", ""},
                                                                       {"concat_up_gate", "up, gate", ""},
                                                                       {"pairs", "gate, up", ", 1"},
                                                                       {"blocks_of_32", "gate, up", ", 32"}};
  for (const auto& [name, names, deal] : layouts) {
    INFO(name);
    const HostTensor y = run(names, deal, 0);
    for (int64_t row = 0; row < 3; ++row)
      for (size_t i = 0; i < 6; ++i) CHECK(close(load_one(y, row * 128 + picked[i]), expected[name][i], 12));
  }
  // Weights that have up first, given as such, are those with the halves swapped, bit for bit.
  CHECK((run("up, gate", "", 0).bytes == run("gate, up", "", 128).bytes));
  CHECK((run("up, gate", "", 0).bytes != run("gate, up", "", 0).bytes));
}

TEST_CASE("B66: two limits in one process, as numbers of the spec and as numbers of the call") {
  const auto spec = [](const std::string& limit) {
    return glu_spec("limited", "  " + limit + "\n",
                    "  gate, up = split(gemm(x, w))\n"
                    "  out y : f32[M, I] = swiglu_oai(gate, up, 1.702, limit, 1)\n");
  };
  const auto wanted = [](double limit) {
    const double gate = std::min(5.0, limit);
    return gate / (1 + std::exp(-1.702 * gate)) * (gate + 1);
  };
  const Buffers buffers = product_of(columns_of_a_half(5), 2);
  for (int round = 0; round < 2; ++round) {
    for (const double limit : {4.0, 7.0}) {
      INFO("limit " << limit << ", round " << round);
      const std::string number = std::to_string(static_cast<int>(limit));
      for (const Buffers& out : {run_spec(spec("const limit = " + number), buffers),
                                 run_spec(spec("param limit = 1"), buffers, {{"limit", limit}})})
        for (int64_t i = 0; i < 256; ++i) CHECK(close(load_one(out.at("y"), i), wanted(limit), 4));
    }
  }
}

TEST_CASE("B67: the two gelus are two functions, told apart where they differ most") {
  const std::string spec = glu_spec("gelus", "",
                                    "  v, unused = split(gemm(x, w))\n  out by_erf : f32[M, I] = gelu_erf(v)\n"
                                    "  out by_tanh : f32[M, I] = gelu_tanh(v)\n");
  for (const double x : {-2.703125, 2.703125}) {
    INFO(x);
    const double by_erf = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    const double by_tanh = 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    REQUIRE(std::fabs(by_erf - by_tanh) > 4.7e-4);
    const Buffers out = run_spec(spec, product_of(columns_of_a_half(x), 1));
    for (int64_t i = 0; i < 128; ++i) {
      CHECK(close(load_one(out.at("by_erf"), i), by_erf, 8));
      CHECK(close(load_one(out.at("by_tanh"), i), by_tanh, 8));
    }
  }
}

TEST_CASE("B72 B76: a probability weighs the bias too, and their gradients know of each other") {
  const auto v = vectors("bias_prob.json");
  const auto matrix = [&](const char* name, int64_t e, int64_t i) -> double {
    return i < 2 ? v[name][static_cast<size_t>(e)][static_cast<size_t>(i)].get<double>() : 0;
  };
  Buffers buffers = {{"M.ends", tensor_of(Storage::i32, {2}, {1, 2})}, {"p", tensor_of(Storage::f32, {2}, v["p"])}};
  buffers["h"] = tensor_by(Storage::bf16, {2, 8}, [&](int64_t i) { return matrix("h", i / 8, i % 8); });
  buffers["w2"] = tensor_by(Storage::bf16, {2, 8, 8}, [&](int64_t i) {
    const int64_t e = i / 64, n = i / 8 % 8, k = i % 8;
    return n < 2 && k < 2
               ? v["W2"][static_cast<size_t>(e)][static_cast<size_t>(n)][static_cast<size_t>(k)].get<double>()
               : 0;
  });
  buffers["b2"] = tensor_by(Storage::bf16, {2, 8}, [&](int64_t i) { return matrix("b2", i / 8, i % 8); });
  buffers["dz"] = tensor_by(Storage::bf16, {2, 8}, [&](int64_t i) {
    return i % 8 < 2 ? v["dout"][static_cast<size_t>(i % 8)].get<double>() : 0;
  });
  const std::string kernel =
      "kernel weighed {\n  dim E = 2, I = 8, H = 8\n  group M by E\n  in h : bf16[M, I]\n  in w2 : bf16[E, H, I]\n"
      "  in b2 : bf16[E, H]\n  in p : f32[M]\n  in dz : bf16[M, H]\n  z = (gemm(h, w2) + b2) * p\n"
      "  dp, db = grad(z, dz, p, b2)\n  out z : f32[M, H] = z\n  out dp : f32[M] = sum(dp)\n"
      "  out db : f32[E, H] = sum(db)\n}\n";
  const Buffers out = run_spec(kernel, buffers);
  for (int64_t n = 0; n < 2; ++n) {
    CHECK(load_one(out.at("z"), n) + load_one(out.at("z"), 8 + n) == v["out"][static_cast<size_t>(n)].get<double>());
    CHECK(load_one(out.at("dp"), n) == v["dprob"][static_cast<size_t>(n)].get<double>());
    for (int64_t e = 0; e < 2; ++e) CHECK(load_one(out.at("db"), e * 8 + n) == matrix("dbias2", e, n));
  }
}

TEST_CASE("B74: scale, then bias, then probability, in f32, and one rounding") {
  const std::string spec = glu_spec("ordered", "  in s : f32[E]\n  in b : bf16[E, 2*I]\n  in p : f32[M]\n",
                                    "  out y : bf16[M, 2*I] = (gemm(x, w) * s + b) * p\n");
  Buffers buffers = product_of(columns_of_a_half(3), 2);
  buffers["s"] = tensor_of(Storage::f32, {1}, {0.5});
  buffers["b"] = tensor_of(Storage::bf16, {1, 256}, columns_of_a_half(10));
  buffers["p"] = tensor_of(Storage::f32, {2}, {0.25, 0.25});
  for (const double value : values_of(run_spec(spec, buffers).at("y"))) CHECK(value == 2.875);
}

TEST_CASE("B76: a probability multiplies in f32 before the quantiser; its gradient comes from what was not quantised") {
  const auto v = vectors("prob_before_quant.json");
  const std::string spec =
      "kernel weighed {\n  dim E = 1, K = 8, N = 64\n  group M by E\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n"
      "  in a : f32[M, N]\n  in p : f32[M]\n  act = (gemm(x, w) + a) * p\n  dp = grad(act, 1, p)\n"
      "  out q : mxfp8[M, N] = act\n  out dp : f32[M] = sum(dp)\n}\n";
  Buffers buffers = {{"x", interpreter::make_tensor(Storage::bf16, {2, 8})},
                     {"w", interpreter::make_tensor(Storage::bf16, {1, 64, 8})},
                     {"M.ends", tensor_of(Storage::i32, {1}, {2})},
                     {"p", tensor_of(Storage::f32, {2}, {v["prob"], v["prob"]})}};
  double sum = 0;
  buffers["a"] =
      tensor_by(Storage::f32, {2, 64}, [&](int64_t i) { return v["x"][static_cast<size_t>(i % 32)].get<double>(); });
  for (const double value : v["x"]) sum += 2 * value;
  const Buffers out = run_spec(spec, buffers);
  const auto codes = hex_bytes(v["scale_then_quant"]["codes"]);
  const uint32_t scale = hex_bytes(v["scale_then_quant"]["scale"].get<std::string>().substr(2))[0];
  for (int64_t i = 0; i < 128; ++i) {
    CHECK(load_code(out.at("q"), i) == codes[static_cast<size_t>(i % 32)]);
    CHECK(load_code(out.at("q.scale"), i / 32) == scale);
  }
  for (int64_t row = 0; row < 2; ++row) CHECK(load_one(out.at("dp"), row) == sum);
}

TEST_CASE("B80: the gradient of a probability behind squared relu, in f32 against f64") {
  constexpr int64_t rows = 21, width = 4096, depth = 64;
  const std::string spec =
      "use \"activations.epi\"\nkernel behind_srelu {\n  dim E = 3, K = 64, I = 4096\n  group M by E\n"
      "  in dy : bf16[M, K]\n  in w2 : bf16[E, K, I]\n  in pre : bf16[M, I]\n  in prob : f32[M]\n"
      "  act = srelu(pre) * prob\n  dh, dprob = grad(act, gemm(dy, w2), pre, prob)\n  out dh : f32[M, I] = dh\n"
      "  out dprob : f32[M] = sum(dprob)\n}\n";
  const std::vector<double> ends = {14, 14, rows};
  Buffers buffers = {{"M.ends", tensor_of(Storage::i32, {3}, ends)}};
  // Nothing cancels but in the activation, so that relative errors mean something.
  const auto positive = [](HostTensor tensor) {
    for (int64_t i = 0; i < tensor.elements(); ++i) store_one(tensor, i, std::fabs(load_one(tensor, i)));
    return tensor;
  };
  buffers["dy"] = positive(normal_tensor(Storage::bf16, {rows, depth}, 1));
  buffers["w2"] = positive(normal_tensor(Storage::bf16, {3, depth, width}, 2, 0.125));
  buffers["pre"] = normal_tensor(Storage::bf16, {rows, width}, 3);
  buffers["prob"] = tensor_by(Storage::f32, {rows}, [](int64_t m) { return std::ldexp(1, -static_cast<int>(m % 7)); });
  const Buffers out = run_spec(spec, buffers);
  const std::vector<double> dy = values_of(buffers["dy"]), w2 = values_of(buffers["w2"]),
                            pre = values_of(buffers["pre"]);
  for (int64_t m = 0; m < rows; ++m) {
    const int64_t e = m < 14 ? 0 : 2;
    const double prob = std::ldexp(1, -static_cast<int>(m % 7));
    std::vector<double> da(static_cast<size_t>(width));
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t i = 0; i < width; ++i)
        da[static_cast<size_t>(i)] +=
            dy[static_cast<size_t>(m * depth + k)] * w2[static_cast<size_t>((e * depth + k) * width + i)];
    double dprob = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double h = std::max(0.0, pre[static_cast<size_t>(m * width + i)]), seed = da[static_cast<size_t>(i)];
      dprob += seed * h * h;
      wrong += !(std::fabs(load_one(out.at("dh"), m * width + i) - seed * prob * 2 * h) <= 1e-5 * seed * prob * 2 * h);
    }
    INFO("row " << m << ", prob " << prob);
    CHECK(wrong == 0);
    CHECK(std::fabs(load_one(out.at("dprob"), m) - dprob) < 1e-5 * dprob);
  }
}

}  // namespace epifuse
