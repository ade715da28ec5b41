// Groups, gaps, poison, additions and reductions: which bytes a kernel writes, and what.
#include <bit>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/quantiser.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::integer_tensor;
using test::normal_tensor;
using test::read_vectors;
using test::tensor_by;
using test::tensor_of;
using test::Value;
using test::values_of;

Buffers run_poisoned(const ir::Graph& graph, Buffers buffers, uint8_t poison = 0xFF) {
  REQUIRE(ir::verify(graph) == std::vector<std::string>{});
  const Result<Problem> problem = Problem::bind(graph, buffers, {});
  INFO((problem ? "" : problem.error().message));
  REQUIRE(problem);
  const Result<Buffers> poisoned = make_outputs(*problem, poison);
  REQUIRE(poisoned);
  // What the caller gave for an output stays.
  buffers.insert(poisoned->begin(), poisoned->end());
  const Result<Buffers> outputs = run(graph, buffers);
  INFO((outputs ? "" : outputs.error().message));
  REQUIRE(outputs);
  return *outputs;
}

TEST_CASE("empty experts: forward and weight gradient on whole numbers") {
  const auto vectors = read_vectors("empty_experts.json");
  const int64_t n_size = vectors["N"], k_size = vectors["K"];
  for (const auto& test_case : vectors["cases"]) {
    GraphBuilder g;
    g.dim("E", 4), g.dim("N", n_size), g.dim("K", k_size);
    g.group("M", "E", ir::GroupSizes::counts);
    const Value a = g.in("a", "bf16", "M, K"), w = g.in("w", "bf16", "E, N, K"), dy = g.in("dy", "bf16", "M, N");
    g.out("y", "f32", "M, N", g.gemm(a, w, "K"));
    g.out("dw", "f32", "E, N, K", g.gemm(dy, a, "M"));
    g.out("dw_added", "f32", "E, N, K", g.gemm(dy, a, "M"), ir::Reduction::none, true);
    const std::vector<double> counts = test_case["counts"];
    const int64_t rows = 12;  // more than the groups hold
    Buffers buffers;
    buffers["M.counts"] = tensor_of(Storage::i32, {4}, counts);
    buffers["a"] = tensor_by(Storage::bf16, {rows, k_size}, [&](int64_t i) {
      return static_cast<double>((3 * (i / k_size) + 5 * (i % k_size)) % 7 - 3);
    });
    buffers["w"] = tensor_by(Storage::bf16, {4, n_size, k_size}, [&](int64_t i) {
      return static_cast<double>((2 * (i / k_size % n_size) + i % k_size + i / k_size / n_size) % 5 - 2);
    });
    buffers["dy"] = tensor_by(Storage::bf16, {rows, n_size},
                              [&](int64_t i) { return static_cast<double>((i / n_size + 2 * (i % n_size)) % 3 - 1); });
    // Rows outside the groups may hold NaN.
    double total = 0;
    for (double count : counts) total += count;
    for (int64_t i = static_cast<int64_t>(total) * k_size; i < rows * k_size; ++i)
      store_code(buffers["a"], i, 0x7FC0), store_code(buffers["dy"], i, 0x7FC0);
    buffers["dw_added"] = tensor_by(Storage::f32, {4, n_size, k_size}, [](int64_t) { return 1.0; });
    const Buffers out = run_poisoned(g.graph, buffers);
    const std::vector<double> y = values_of(out.at("y")), dw = values_of(out.at("dw")),
                              added = values_of(out.at("dw_added"));
    int64_t row = 0;
    for (const auto& expert : test_case["experts"]) {
      const int64_t e = expert["expert"], tokens = expert["tokens"];
      double sum = 0, weighted = 0, dw_sum = 0, dw_weighted = 0;
      for (int64_t i = 0; i < tokens; ++i)
        for (int64_t n = 0; n < n_size; ++n) {
          sum += y[(row + i) * n_size + n];
          weighted += static_cast<double>((i + 1) * (n + 1)) * y[(row + i) * n_size + n];
        }
      for (int64_t i = 0; i < n_size * k_size; ++i) {
        const double value = dw[e * n_size * k_size + i];
        dw_sum += value;
        dw_weighted += static_cast<double>((i / k_size + 1) * (i % k_size + 1)) * value;
        CHECK(added[e * n_size * k_size + i] == (tokens == 0 ? 1 : 1 + value));
      }
      CHECK(sum == expert["fwd_sum"].get<double>());
      CHECK(weighted == expert["fwd_weighted"].get<double>());
      CHECK(dw_sum == expert["wgrad_sum"].get<double>());
      CHECK(dw_weighted == expert["wgrad_weighted"].get<double>());
      row += tokens;
    }
    // Rows past the last group keep their poison.
    for (int64_t i = row * n_size * 4; i < rows * n_size * 4; ++i) CHECK(out.at("y").bytes[i] == 0xFF);
  }
}

// Two grouped dimensions of one E, each with empty groups of its own.
TEST_CASE("an output is without terms where the groups that it sums over are empty, and not those of others") {
  GraphBuilder g;
  g.dim("E", 4), g.dim("N", 2), g.dim("K", 3);
  g.group("Q", "E", ir::GroupSizes::counts);
  g.group("M", "E", ir::GroupSizes::counts);
  const Value s = g.in("s", "f32", "E, K"), u = g.in("u", "f32", "Q, K");
  const Value of_m = g.gemm(g.in("d", "bf16", "M, N"), g.in("x", "bf16", "M, K"), "M") + s;
  const Value of_q = g.gemm(g.in("c", "bf16", "Q, N"), g.in("y", "bf16", "Q, K"), "Q") + s;
  g.out("of_m", "f32", "E, N, K", of_m);
  g.out("of_q", "f32", "E, N, K", of_q);
  g.out("m_added", "f32", "E, N, K", of_m, ir::Reduction::none, true);
  g.out("q_added", "f32", "E, N, K", of_q, ir::Reduction::none, true);
  g.out("of_both", "f32", "E, N, K", of_m * of_q);
  g.out("columns", "f32", "E, K", u, ir::Reduction::sum);
  Buffers buffers;
  const std::vector<double> m_counts = {0, 2, 1, 0}, q_counts = {3, 0, 1, 0};
  buffers["M.counts"] = tensor_of(Storage::i32, {4}, m_counts);
  buffers["Q.counts"] = tensor_of(Storage::i32, {4}, q_counts);
  const auto ones = [](Storage storage, int64_t rows, int64_t columns) {
    return tensor_by(storage, {rows, columns}, [](int64_t) { return 1.0; });
  };
  buffers["s"] = tensor_by(Storage::f32, {4, 3}, [](int64_t) { return 10.0; });
  buffers["d"] = ones(Storage::bf16, 3, 2), buffers["x"] = ones(Storage::bf16, 3, 3);
  buffers["c"] = ones(Storage::bf16, 4, 2), buffers["y"] = ones(Storage::bf16, 4, 3);
  buffers["u"] = ones(Storage::f32, 4, 3);
  for (const char* name : {"m_added", "q_added"})
    buffers[name] = tensor_by(Storage::f32, {4, 2, 3}, [](int64_t) { return -5.0; });
  const Buffers out = run_poisoned(g.graph, buffers);
  for (size_t e = 0; e < 4; ++e) {
    const double m = m_counts[e] == 0 ? 0 : m_counts[e] + 10, q = q_counts[e] == 0 ? 0 : q_counts[e] + 10;
    for (size_t i = e * 6; i < e * 6 + 6; ++i) {
      CHECK(values_of(out.at("of_m"))[i] == m);
      CHECK(values_of(out.at("of_q"))[i] == q);
      CHECK(values_of(out.at("m_added"))[i] == m - 5);
      CHECK(values_of(out.at("q_added"))[i] == q - 5);
      CHECK(values_of(out.at("of_both"))[i] == m * q);
    }
    for (size_t i = e * 3; i < e * 3 + 3; ++i) CHECK(values_of(out.at("columns"))[i] == q_counts[e]);
  }
}

TEST_CASE("rows of 4-bit codes are whole bytes") {
  GraphBuilder g;
  g.dyn("S");
  const Value x = g.in("x", "f32", "4, 3*S");
  g.out("q", "mxfp4", "4, 3*S", x);
  g.out("y", "f32", "4, 3*S", x);
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::f32, {4, 15}, 1);
  // A launch says the same (tests/runtime/arguments_test.cpp).
  CHECK(run(g.graph, buffers).error().message ==
        "'q' has two e2m1 codes in a byte, and its last dimension, S * 3 = 15, is odd");
  g.graph.outputs[0].left_out = true;
  CHECK(run(g.graph, buffers));
}

TEST_CASE("MXFP8 in both orientations equals the tile of the vectors") {
  const auto v = read_vectors("numerics/mxfp8_tile_row_col.json");
  GraphBuilder g;
  g.dim("E", 1), g.dim("I", 32);
  g.group("M", "E");
  g.align("P", "M", 128);
  const Value x = g.in("x", "bf16", "M, I");
  g.out("y", "mxfp8", "M, I", x);
  g.out("yt", "mxfp8", "I, P", x);
  ir::TensorType along_rows = GraphBuilder::type("mxfp8");
  along_rows.along_axis = 0;
  g.out("yc", along_rows, "P, I", x);
  Buffers buffers;
  buffers["M.ends"] = tensor_of(Storage::i32, {1}, {32});
  buffers["x"] = make_tensor(Storage::bf16, {32, 32});
  for (int64_t r = 0; r < 32; ++r) {
    const std::vector<uint32_t> words = test::hex_words(v["x_bf16_rows"][r]);
    for (int64_t c = 0; c < 32; ++c) store_code(buffers["x"], r * 32 + c, words[c]);
  }
  const Buffers out = run_poisoned(g.graph, buffers);
  const std::vector<uint32_t> row_scales = test::hex_words(v["row_scales"]),
                              col_scales = test::hex_words(v["col_scales"]);
  REQUIRE(out.at("yt").extents == std::vector<int64_t>{32, 128});
  for (int64_t r = 0; r < 32; ++r) {
    const std::vector<uint32_t> q_row = test::hex_words(v["q_row"][r]), q_col = test::hex_words(v["q_col"][r]),
                                q_t = test::hex_words(v["q_col_T"][r]);
    CHECK(load_code(out.at("y.scale"), r) == row_scales[r]);
    CHECK(load_code(out.at("yt.scale"), r * 4) == col_scales[r]);
    CHECK(load_code(out.at("yc.scale"), r) == col_scales[r]);
    for (int64_t c = 0; c < 32; ++c) {
      CHECK(load_code(out.at("y"), r * 32 + c) == q_row[c]);
      CHECK(load_code(out.at("yt"), r * 128 + c) == q_t[c]);
      CHECK(load_code(out.at("yc"), r * 32 + c) == q_col[c]);
    }
    // The gap behind the group is zero, codes and scales.
    for (int64_t c = 32; c < 128; ++c) CHECK(load_code(out.at("yt"), r * 128 + c) == 0);
    for (int64_t c = 1; c < 4; ++c) CHECK(load_code(out.at("yt.scale"), r * 4 + c) == 0);
  }
}

TEST_CASE("ragged groups: aligned places, gaps, poison, ends") {
  GraphBuilder g;
  g.dim("E", 5), g.dim("I", 33);
  g.group("M", "E", ir::GroupSizes::counts, Storage::i64);
  g.align("P", "M", 32);
  const Value x = g.in("x", "bf16", "M, I"), scale = g.in("scale", "f32", "E");
  const Value y = x * scale;
  g.out("y", "bf16", "M, I", y);
  g.out("yt", "bf16", "I, P", y);
  g.out("q", "mxfp8", "I, P", y);
  g.out("ends", "i32", "E", g.group_ends("P"));
  const std::vector<double> counts = {0, 1, 40, 0, 32};
  const int64_t starts[] = {0, 0, 32, 96, 96}, rows = 80, width = 33;
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i64, {5}, counts);
  buffers["x"] = integer_tensor(Storage::bf16, {rows, width}, 1);
  buffers["scale"] = tensor_of(Storage::f32, {5}, {2, 4, 8, 16, 32});
  const int64_t capacity = rows + 5 * 31 - (rows + 5 * 31) % 32;
  const Buffers out = run_poisoned(g.graph, buffers, 0xA5);
  REQUIRE(out.at("yt").extents == std::vector<int64_t>{width, capacity});
  CHECK(values_of(out.at("ends")) == std::vector<double>{0, 32, 96, 96, 128});
  const std::vector<double> in = values_of(buffers["x"]);
  int64_t row = 0;
  std::vector<int> state(static_cast<size_t>(capacity), -1);  // -1 untouched, -2 gap, else the row
  for (int e = 0; e < 5; ++e)
    for (int64_t i = 0; i < counts[e]; ++i, ++row) {
      for (int64_t c = 0; c < width; ++c) {
        const double expected = in[row * width + c] * (2 << e);
        CHECK(load_one(out.at("y"), row * width + c) == expected);
        CHECK(load_one(out.at("yt"), c * capacity + starts[e] + i) == expected);
      }
      state[starts[e] + i] = static_cast<int>(row);
    }
  for (int64_t i = row * width; i < rows * width; ++i) CHECK(load_code(out.at("y"), i) == 0xA5A5);
  for (int64_t p = 0; p < 128; ++p)
    if (state[p] < 0) state[p] = -2;
  for (int64_t c = 0; c < width; ++c)
    for (int64_t p = 0; p < capacity; ++p) {
      if (state[p] == -2) CHECK(load_code(out.at("yt"), c * capacity + p) == 0);
      if (state[p] == -1) CHECK(load_code(out.at("yt"), c * capacity + p) == 0xA5A5);
      if (state[p] == -2) CHECK(load_code(out.at("q"), c * capacity + p) == 0);
      if (state[p] == -1) CHECK(load_code(out.at("q"), c * capacity + p) == 0xA5);
    }
  // Scales of blocks with tokens are written even when a part of the block is gap.
  for (int64_t c = 0; c < width; ++c) {
    CHECK(load_code(out.at("q.scale"), c * (capacity / 32) + 4) == 0xA5);
    const double first = std::fabs(load_one(out.at("yt"), c * capacity));
    const auto quantiser = make_quantiser(GraphBuilder::type("mxfp8"));
    CHECK(load_code(out.at("q.scale"), c * (capacity / 32)) == (*quantiser)->scale(first));
  }
}

TEST_CASE("sums and largest magnitudes over rows, columns, groups and everything") {
  GraphBuilder g;
  g.dim("E", 3), g.dim("I", 300);
  g.group("M", "E", ir::GroupSizes::ends);
  const Value x = g.in("x", "bf16", "M, I");
  g.out("rows", "f32", "M", x, ir::Reduction::sum);
  g.out("columns", "f32", "E, I", x, ir::Reduction::sum);
  g.out("added", "f32", "E, I", x, ir::Reduction::sum, true);
  g.out("groups", "f32", "E", x, ir::Reduction::amax);
  g.out("all", "f32", "", x, ir::Reduction::amax);
  const int64_t rows = 400, width = 300;
  Buffers buffers;
  buffers["M.ends"] = tensor_of(Storage::i32, {3}, {150, 150, 390});
  buffers["x"] = integer_tensor(Storage::bf16, {rows, width}, 2, 100);
  for (int64_t i = 390 * width; i < rows * width; ++i) store_code(buffers["x"], i, 0x7FC0);
  store_one(buffers["x"], 200 * width + 7, -512);
  buffers["added"] = tensor_by(Storage::f32, {3, width}, [](int64_t i) { return static_cast<double>(i); });
  const Buffers out = run_poisoned(g.graph, buffers);
  const std::vector<double> in = values_of(buffers["x"]);
  const auto group = [](int64_t row) { return row < 150 ? 0 : 2; };
  std::vector<double> row_sums(390), column_sums(3 * width), largest(3);
  for (int64_t r = 0; r < 390; ++r)
    for (int64_t c = 0; c < width; ++c) {
      const double value = in[r * width + c];
      row_sums[r] += value;
      column_sums[group(r) * width + c] += value;
      largest[group(r)] = std::max(largest[group(r)], std::fabs(value));
    }
  for (int64_t r = 0; r < 390; ++r) CHECK(load_one(out.at("rows"), r) == row_sums[r]);
  for (int64_t r = 390; r < rows; ++r) CHECK(load_code(out.at("rows"), r) == 0xFFFFFFFF);
  CHECK(values_of(out.at("columns")) == column_sums);
  for (int64_t i = 0; i < 3 * width; ++i)
    CHECK(load_one(out.at("added"), i) == column_sums[i] + static_cast<double>(i));
  CHECK(values_of(out.at("groups")) == std::vector<double>{largest[0], 0, 512});
  CHECK(load_one(out.at("all"), 0) == 512);
}

TEST_CASE("inputs may be left out, and a missing one is named") {
  GraphBuilder g;
  g.dyn("S");
  g.dim("N", 3);
  const Value x = g.in("x", "f32", "S, N"), p = g.in("p", "f32", "S", 2.0);
  g.out("y", "f32", "S, N", x * p);
  Buffers buffers;
  const Result<Buffers> missing = run(g.graph, buffers);
  REQUIRE(!missing);
  CHECK(missing.error().message.find("'x'") != std::string::npos);
  buffers["x"] = tensor_of(Storage::f32, {1, 3}, {1, 2, 3});
  const Result<Buffers> out = run(g.graph, buffers);
  REQUIRE(out);
  CHECK(values_of(out->at("y")) == std::vector<double>{2, 4, 6});
}

TEST_CASE("wrong sizes and group sizes are errors that name the buffer") {
  GraphBuilder g;
  g.dim("E", 2), g.dim("N", 4);
  g.group("M", "E");
  g.out("y", "f32", "M, N", g.in("x", "f32", "M, N"));
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::f32, {10, 4}, 1);
  const auto message = [&] {
    const Result<Buffers> result = run(g.graph, buffers);
    REQUIRE(!result);
    return result.error().message;
  };
  CHECK(message().find("'M.ends'") != std::string::npos);
  for (const std::vector<double>& ends : {std::vector<double>{4, 11}, {4, 3}, {-1, 2}}) {
    buffers["M.ends"] = tensor_of(Storage::i32, {2}, ends);
    CHECK(message().find("'M.ends'") != std::string::npos);
  }
  buffers["M.ends"] = tensor_of(Storage::i64, {2}, {1, 2});
  CHECK(message().find("i32[2] is expected") != std::string::npos);
  buffers["M.ends"] = tensor_of(Storage::i32, {2}, {1, 2});
  buffers["x"] = normal_tensor(Storage::f32, {10, 5}, 1);
  CHECK(message().find("'x'") != std::string::npos);
}

TEST_CASE("aligned groups and slots say where rows start") {
  for (bool slots : {false, true}) {
    GraphBuilder g;
    g.dim("E", 3), g.dim("N", 2), g.dim("C", 10);
    ir::Dimension& m = g.group("M", "E", ir::GroupSizes::counts, Storage::i32, slots ? 1 : 8);
    if (slots) m.slot = g.extent("C");
    g.out("y", "f32", "M, N", g.in("x", "f32", "M, N") * g.in("s", "f32", "E"));
    Buffers buffers;
    buffers["M.counts"] = tensor_of(Storage::i32, {3}, {3, 0, 9});
    buffers["x"] = tensor_by(Storage::f32, {30, 2}, [](int64_t) { return 1.0; });
    buffers["s"] = tensor_of(Storage::f32, {3}, {1, 2, 3});
    const double poison = std::bit_cast<float>(0x40404040);
    const std::vector<double> y = values_of(run_poisoned(g.graph, buffers, 0x40).at("y"));
    const int64_t last = slots ? 20 : 8;
    for (int64_t row = 0; row < 30; ++row) {
      const bool gap = !slots && ((row >= 3 && row < 8) || (row >= 17 && row < 24));
      CHECK(y[row * 2] == (row < 3 ? 1 : row >= last && row < last + 9 ? 3 : gap ? 0 : poison));
    }
  }
}

TEST_CASE("a value over fewer names than its output is stored along all of them") {
  GraphBuilder g;
  g.dim("E", 2), g.dim("N", 200), g.dim("K", 3);
  g.group("M", "E");
  const Value half = g.number(0.5);
  const Value s = g.in("s", "f32", "E"), row = g.in("row", "f32", "M"), column = g.in("column", "f32", "N");
  g.out("number", "bf16", "N, K", half);
  g.out("rows", "f32", "M, N", row);
  g.out("columns", "f32", "M, N", column);
  g.out("transposed", "f32", "N, M", column);
  g.out("groups", "f32", "M", s + half);
  g.out("quantised", "mxfp8", "M, N", half);
  Buffers buffers;
  buffers["M.ends"] = tensor_of(Storage::i32, {2}, {1, 3});
  buffers["s"] = tensor_of(Storage::f32, {2}, {1, 2});
  buffers["row"] = tensor_of(Storage::f32, {4}, {5, 6, 7, 8});
  buffers["column"] = tensor_by(Storage::f32, {200}, [](int64_t i) { return static_cast<double>(i); });
  const Buffers out = run_poisoned(g.graph, buffers, 0x40);
  const double poison = std::bit_cast<float>(0x40404040);
  CHECK(values_of(out.at("number")) == std::vector<double>(200 * 3, 0.5));
  CHECK(values_of(out.at("groups")) == std::vector<double>{1.5, 2.5, 2.5, poison});
  const std::vector<double> rows = values_of(out.at("rows")), columns = values_of(out.at("columns")),
                            transposed = values_of(out.at("transposed"));
  for (int64_t m = 0; m < 4; ++m)
    for (int64_t n = 0; n < 200; ++n) {
      CHECK(rows[m * 200 + n] == (m == 3 ? poison : 5.0 + static_cast<double>(m)));
      CHECK(columns[m * 200 + n] == (m == 3 ? poison : static_cast<double>(n)));
      CHECK(transposed[n * 4 + m] == (m == 3 ? poison : static_cast<double>(n)));
    }
  // 0.5 is 2^8 times 2^-9: the scale's exponent is 127 - 9, for a largest code of 448.
  for (int64_t i = 0; i < 3 * 200; ++i) CHECK(decode(Storage::e4m3, out.at("quantised").bytes[i]) == 256);
  for (int64_t i = 0; i < 3 * 7; ++i) CHECK(out.at("quantised.scale").bytes[i] == 118);
}

TEST_CASE("a gather from a tensor without rows reads zeros") {
  GraphBuilder g;
  g.dyn("S"), g.dyn("T"), g.dim("N", 3), g.dim("K", 8);
  const Value x = g.in("x", "f32", "T, N"), index = g.in("index", "i32", "S");
  const Value a = g.in("a", "bf16", "T, K"), b = g.in("b", "bf16", "N, K");
  g.out("y", "f32", "S, N", g.gather(x, index, "T") + g.number(1));
  g.out("h", "f32", "S, N", g.gemm(g.gather(a, index, "T"), b, "K"));
  Buffers buffers;
  buffers["x"] = interpreter::make_tensor(Storage::f32, {0, 3});
  buffers["a"] = interpreter::make_tensor(Storage::bf16, {0, 8});
  buffers["b"] = tensor_by(Storage::bf16, {3, 8}, [](int64_t) { return 1.0; });
  buffers["index"] = tensor_of(Storage::i32, {4}, {0, -1, 5, 1});
  const Buffers out = run_poisoned(g.graph, buffers);
  CHECK(values_of(out.at("y")) == std::vector<double>(12, 1.0));
  CHECK(values_of(out.at("h")) == std::vector<double>(12, 0.0));
}

TEST_CASE("a chain may be longer than the stack of calls is deep") {
  GraphBuilder g;
  g.dim("N", 4);
  auto value = g.in("x", "f32", "N");
  const auto minus_one = g.number(-1);
  for (int i = 0; i < 20000; ++i) value = value * minus_one;
  g.out("y", "f32", "N", value);
  Buffers buffers;
  buffers["x"] = tensor_of(Storage::f32, {4}, {1, -2, 0.5, 3});
  CHECK(values_of(run_poisoned(g.graph, buffers, 0xFF).at("y")) == std::vector<double>{1, -2, 0.5, 3});
}

TEST_CASE("a value used twice at each of many steps takes no longer than its steps") {
  GraphBuilder g;
  g.dim("N", 4);
  auto value = g.in("x", "f32", "N");
  for (int i = 0; i < 200; ++i) value = (value + value) * g.number(0.5);  // 2^200 ways lead from the end to the input
  g.out("y", "f32", "N", value);
  Buffers buffers;
  buffers["x"] = tensor_of(Storage::f32, {4}, {1, -2, 0.5, 3});
  CHECK(values_of(run_poisoned(g.graph, buffers, 0xFF).at("y")) == std::vector<double>{1, -2, 0.5, 3});
}

}  // namespace
}  // namespace epifuse::interpreter
