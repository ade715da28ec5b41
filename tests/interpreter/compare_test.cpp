// The judge accepts what an f32 kernel may legitimately store, and nothing else.
#include "compiler/interpreter/compare.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/quantiser.h"
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

constexpr int64_t rows = 200, k_size = 256, width = 96, capacity = 512;
constexpr int64_t starts[] = {0, 37, 37}, ends[] = {37, 37, 150}, places[] = {0, 128, 128};

// grouped GEMM, SwiGLU, probability; stored as bf16, f32, and MXFP8 both ways.
struct Kernel {
  GraphBuilder g;
  Buffers buffers;
  std::unique_ptr<GemmProvider> gemm = cpu_gemm();

  explicit Kernel(bool whole_numbers) {
    g.dim("E", 3), g.dim("K", k_size), g.dim("I", width);
    g.group("M", "E");
    g.align("P", "M", 128);
    const Value h = g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, 2*I, K"), "K");
    const Value gate = g.split(h, 0), up = g.split(h, 1), prob = g.in("prob", "f32", "M");
    const Value act = (whole_numbers ? relu(gate) : silu(gate)) * up * prob;
    g.out("y", "bf16", "M, I", act);
    g.out("f", "f32", "I, M", act);
    g.out("q", "mxfp8", "M, I", act);
    g.out("qt", "mxfp8", "I, P", act);
    g.out("dprob", "f32", "M", act, ir::Reduction::sum);
    buffers["M.ends"] = tensor_of(Storage::i32, {3}, {37, 37, 150});
    buffers["x"] = whole_numbers ? integer_tensor(Storage::bf16, {rows, k_size}, 1)
                                 : normal_tensor(Storage::bf16, {rows, k_size}, 1);
    buffers["w"] = whole_numbers ? integer_tensor(Storage::bf16, {3, 2 * width, k_size}, 2, 1)
                                 : normal_tensor(Storage::bf16, {3, 2 * width, k_size}, 2, 0.08);
    buffers["prob"] = whole_numbers ? test::tensor_by(Storage::f32, {rows}, [](int64_t i) { return 1.0 + i % 2; })
                                    : test::tensor_by(Storage::f32, {rows}, [](int64_t i) { return 0.1 + 0.01 * i; });
    for (int64_t i = 150 * k_size; i < rows * k_size; ++i) store_code(buffers["x"], i, 0x7FC0);
  }

  // What an f32 kernel that sums from the far end and divides in its own way stores.
  Buffers device(bool whole_numbers) const {
    const std::vector<double> x = values_of(buffers.at("x")), w = values_of(buffers.at("w")),
                              prob = values_of(buffers.at("prob"));
    const Result<Problem> problem = Problem::bind(g.graph, buffers, {});
    Buffers out = *make_outputs(*problem, 0xFF);
    std::vector<double> act(static_cast<size_t>(rows * width));
    for (int64_t m = 0; m < 150; ++m) {
      const int64_t e = m < 37 ? 0 : 2;
      float sum = 0;
      for (int64_t c = 0; c < width; ++c) {
        float parts[2] = {};
        for (int part = 0; part < 2; ++part)
          for (int64_t j = k_size; j-- > 0;)
            parts[part] += static_cast<float>(x[m * k_size + j] * w[((e * 2 + part) * width + c) * k_size + j]);
        const float gated = whole_numbers ? std::max(0.0f, parts[0]) : parts[0] / (1 + std::exp(-parts[0]));
        act[m * width + c] = gated * parts[1] * static_cast<float>(prob[m]);
        sum += static_cast<float>(act[m * width + c]);
        store_one(out["y"], m * width + c, act[m * width + c]);
        store_one(out["f"], c * rows + m, act[m * width + c]);
      }
      store_one(out["dprob"], m, sum);
    }
    const auto quantiser = make_quantiser(GraphBuilder::type("mxfp8"));
    auto block = [&](HostTensor& codes, HostTensor& scales, int64_t first, int64_t scale, std::vector<double> values) {
      const uint32_t s = (*quantiser)->scale((*quantiser)->amax(values.data(), static_cast<int64_t>(values.size())));
      store_code(scales, scale, s);
      for (size_t i = 0; i < values.size(); ++i)
        store_code(codes, first + static_cast<int64_t>(i), (*quantiser)->element(values[i], s));
    };
    for (int64_t m = 0; m < 150; ++m)
      for (int64_t c = 0; c < width; c += 32)
        block(out["q"], out["q.scale"], m * width + c, m * (width / 32) + c / 32,
              {act.begin() + m * width + c, act.begin() + m * width + c + 32});
    for (int64_t c = 0; c < width; ++c) {
      for (int64_t p = 0; p < 256; ++p) store_code(out["qt"], c * capacity + p, 0);
      for (int64_t b = 0; b < 8; ++b) store_code(out["qt.scale"], c * (capacity / 32) + b, 0);
      for (int e = 0; e < 3; ++e)
        for (int64_t m = starts[e]; m < ends[e]; m += 32) {
          std::vector<double> values;
          for (int64_t i = m; i < std::min(ends[e], m + 32); ++i) values.push_back(act[i * width + c]);
          const int64_t place = places[e] + m - starts[e];
          block(out["qt"], out["qt.scale"], c * capacity + place, c * (capacity / 32) + place / 32, values);
        }
    }
    return out;
  }
};

Verdict judge_output(const Kernel& kernel, const std::string& name, const Buffers& stored, const Before& before = {}) {
  const Result<Reference> reference = Reference::make(kernel.g.graph, kernel.buffers, {}, *kernel.gemm);
  REQUIRE(reference);
  for (const ir::Output& output : kernel.g.graph.outputs) {
    if (output.tensor.name != name) continue;
    const Result<Verdict> verdict = judge(*reference, output, stored, before);
    INFO((verdict ? "" : verdict.error().message));
    REQUIRE(verdict);
    return *verdict;
  }
  FAIL("no output " + name);
  return {};
}

const std::string all_outputs[] = {"y", "f", "q", "qt", "dprob"};

TEST_CASE("an f32 kernel in another order is accepted") {
  const Kernel kernel(false);
  const Buffers stored = kernel.device(false);
  for (const std::string& name : all_outputs) {
    const Verdict verdict = judge_output(kernel, name, stored);
    INFO(verdict.print());
    CHECK(verdict.ok);
    CHECK(verdict.elements == (name == "dprob" ? 150 : 150 * width));
    CHECK(verdict.nan_stored == 0);
    CHECK(verdict.error_norm > 0);
    CHECK(verdict.norms_exceeded == 0);
  }
}

TEST_CASE("whatever lies in the intervals is accepted") {
  // A longer sum has wider intervals: their ends round to other codes here and there, and to other scales.
  GraphBuilder g;
  g.dim("N", 64), g.dim("K", 2048);
  g.dyn("S");
  const Value act = silu(g.gemm(g.in("x", "bf16", "S, K"), g.in("w", "bf16", "N, K"), "K"));
  g.out("q", "mxfp8", "S, N", act);
  g.out("y", "bf16", "S, N", act);
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::bf16, {256, 2048}, 1);
  buffers["w"] = normal_tensor(Storage::bf16, {64, 2048}, 2, 0.02);
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  const auto quantiser = make_quantiser(GraphBuilder::type("mxfp8"));
  for (int end : {-1, 0, 1}) {
    Buffers stored = *make_outputs(reference->problem());
    const Result<OutputWalk> walk = reference->walk(g.graph.outputs[0], true);
    for (int64_t t = 0; t < walk->tiles(); ++t) {
      const Tile tile = walk->tile(t);
      const std::vector<double>& from = end < 0 ? tile.low : end > 0 ? tile.high : tile.value;
      for (int64_t r = 0; r < tile.rows; ++r)
        for (int64_t c = 0; c < tile.cols; c += 32) {
          const double* block = from.data() + r * Tile::pitch + c;
          const uint32_t scale = (*quantiser)->scale((*quantiser)->amax(block, 32));
          const int64_t row = tile.position[0] + r, col = tile.position[1] + c;
          store_code(stored["q.scale"], row * 2 + col / 32, scale);
          for (int64_t i = 0; i < 32; ++i) {
            store_code(stored["q"], row * 64 + col + i, (*quantiser)->element(block[i], scale));
            store_one(stored["y"], row * 64 + col + i, block[i]);
          }
        }
    }
    for (const ir::Output& output : g.graph.outputs) {
      const Result<Verdict> verdict = judge(*reference, output, stored);
      REQUIRE(verdict);
      INFO(verdict->print());
      CHECK(verdict->outside == 0);
      CHECK(verdict->scales_outside == 0);
      CHECK((end == 0) == (verdict->different == 0));
    }
  }
}

TEST_CASE("on whole numbers every byte must be the reference's") {
  const Kernel kernel(true);
  const Buffers stored = kernel.device(true);
  for (const std::string& name : all_outputs) {
    const Verdict verdict = judge_output(kernel, name, stored);
    INFO(verdict.print());
    CHECK(verdict.ok);
    CHECK(verdict.different == 0);
    CHECK(verdict.scales_different == 0);
  }
  // One step of the last digit, anywhere, is wrong.
  for (const std::string name : {"y", "f", "q", "qt", "dprob"}) {
    Buffers wrong = stored;
    HostTensor& tensor = wrong[name];
    int64_t at = 0;
    while (load_one(tensor, at) == 0) ++at;
    store_code(tensor, at, load_code(tensor, at) + 1);
    const Verdict verdict = judge_output(kernel, name, wrong);
    CHECK(!verdict.ok);
    CHECK(verdict.outside == 1);
    CHECK(verdict.different == 1);
    CHECK(verdict.worst.found);
  }
}

TEST_CASE("a code one step beyond its interval") {
  const Kernel kernel(false);
  const Buffers stored = kernel.device(false);
  for (const std::string name : {"y", "q", "qt"}) {
    Buffers wrong = stored;
    HostTensor& tensor = wrong[name];
    const int64_t at = name == "qt" ? 5 * capacity + 130 : 40 * width + 5;
    const uint32_t code = load_code(tensor, at);
    // bf16's step is small beside the bound of a long sum; e4m3's is far larger.
    const uint32_t steps = name == "y" ? 4 : 2;
    store_code(tensor, at, (code & 0x7F) > 8 ? code - steps : code + steps);
    const Verdict verdict = judge_output(kernel, name, wrong);
    INFO(verdict.print());
    CHECK(!verdict.ok);
    CHECK(verdict.outside == 1);
    REQUIRE(verdict.worst.place.size() == 2);
    CHECK(verdict.worst.place[0] == std::pair<std::string, int64_t>{"M", name == "qt" ? 39 : 40});
    CHECK(verdict.worst.place[1] == std::pair<std::string, int64_t>{"I", 5});
    CHECK(verdict.worst.group == 2);
  }
}

TEST_CASE("differences are counted by group, and in steps") {
  const Kernel kernel(true);
  Buffers stored = kernel.device(true);
  const auto judged = [&](const char* output) {
    const Result<Reference> reference = Reference::make(kernel.g.graph, kernel.buffers, {}, *kernel.gemm);
    REQUIRE(reference);
    for (const ir::Output& o : kernel.g.graph.outputs)
      if (o.tensor.name == output) return *judge(*reference, o, stored);
    FAIL("no such output");
    return Verdict();
  };
  // One code beside the right one in group 0, and one far away in group 2.
  HostTensor& y = stored.at("y");
  store_code(y, 5, load_code(y, 5) ^ 1);
  store_code(y, 40 * width + 7, load_code(y, 40 * width + 7) ^ 0x40);
  const Verdict verdict = judged("y");
  CHECK(!verdict.ok);
  CHECK(verdict.different == 2);
  CHECK(verdict.one_step == 1);
  CHECK(verdict.more_steps == 1);
  REQUIRE(verdict.groups.size() == 2);  // the empty one has no elements
  CHECK(verdict.groups[0].group == 0);
  CHECK(verdict.groups[0].one_step == 1);
  CHECK(verdict.groups[0].outside == 1);
  CHECK(verdict.groups[0].worst.place == std::vector<std::pair<std::string, int64_t>>{{"M", 0}, {"I", 5}});
  CHECK(verdict.groups[1].group == 2);
  CHECK(verdict.groups[1].more_steps == 1);
  CHECK(verdict.groups[0].elements + verdict.groups[1].elements == verdict.elements);
  CHECK(verdict.print().find("group 2: 1 of") != std::string::npos);
  const auto json = nlohmann::json::parse(verdict.to_json());
  CHECK(json["groups"][1]["more_steps"] == 1);
  CHECK(json["one_step"] == 1);
}

TEST_CASE("the norm of a sum's error is held against what was added") {
  // Terms that cancel: an error of one part in 10^4 of them is far inside every interval of a sum so long.
  GraphBuilder g;
  g.dim("N", 8), g.dim("L", 40000);
  const Value x = g.in("x", "f32", "N, L");
  g.out("s", "f32", "N", x, ir::Reduction::sum);
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::f32, {8, 40000}, 3);
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  Buffers stored = *run(g.graph, buffers);
  CHECK(judge(*reference, g.graph.outputs[0], stored)->ok);
  const auto with_error = [&](double relative) {
    Buffers wrong = stored;
    for (int64_t i = 0; i < 8; ++i) {
      double magnitude = 0;
      for (int64_t l = 0; l < 40000; ++l) magnitude += std::fabs(load_one(buffers.at("x"), i * 40000 + l));
      store_one(wrong.at("s"), i, load_one(stored.at("s"), i) + relative * magnitude);
    }
    return *judge(*reference, g.graph.outputs[0], wrong);
  };
  CHECK(with_error(5e-6).ok);
  const Verdict wrong = with_error(2e-5);
  CHECK(!wrong.ok);
  CHECK(wrong.outside == 0);
  CHECK(wrong.norms_exceeded > 0);
}

TEST_CASE("a wrong scale, with and without codes that follow it") {
  const Kernel kernel(false);
  const Buffers stored = kernel.device(false);
  const auto quantiser = make_quantiser(GraphBuilder::type("mxfp8"));
  for (int off : {-1, 1})
    for (bool codes_follow : {false, true}) {
      Buffers wrong = stored;
      const int64_t m = 60, block = 1;
      const int64_t scale_at = m * (width / 32) + block;
      const uint32_t scale = load_code(wrong["q.scale"], scale_at);
      store_code(wrong["q.scale"], scale_at, scale + static_cast<uint32_t>(off));
      for (int64_t i = 0; codes_follow && i < 32; ++i) {
        const int64_t at = m * width + block * 32 + i;
        const double value = load_one(stored.at("f"), (block * 32 + i) * rows + m);
        store_code(wrong["q"], at, (*quantiser)->element(value, scale + static_cast<uint32_t>(off)));
      }
      const Verdict verdict = judge_output(kernel, "q", wrong);
      INFO(verdict.print());
      CHECK(!verdict.ok);
      CHECK(verdict.scales_outside == 1);
    }
}

TEST_CASE("an element that was not written") {
  const Kernel kernel(false);
  for (const std::string name : {"y", "f", "q", "qt"}) {
    Buffers wrong = kernel.device(false);
    HostTensor& tensor = wrong[name];
    const int64_t at = name == "qt" ? 95 * capacity + 240 : name == "f" ? 95 * rows + 149 : 149 * width + 95;
    store_code(tensor, at, 0xFFFFFFFF);
    const Verdict verdict = judge_output(kernel, name, wrong);
    CHECK(!verdict.ok);
    CHECK(verdict.nan_stored == 1);
    CHECK(verdict.outside == 1);
  }
}

TEST_CASE("swapped columns and shifted rows") {
  const Kernel kernel(false);
  const Buffers stored = kernel.device(false);
  for (const std::string name : {"y", "q"}) {
    Buffers swapped = stored, shifted = stored;
    for (int64_t m = 0; m < 150; ++m) {
      const uint32_t left = load_code(stored.at(name), m * width + 10),
                     right = load_code(stored.at(name), m * width + 11);
      store_code(swapped[name], m * width + 10, right);
      store_code(swapped[name], m * width + 11, left);
      for (int64_t c = 0; c < width; ++c)
        store_code(shifted[name], m * width + c, load_code(stored.at(name), (m == 0 ? 0 : m - 1) * width + c));
    }
    const Verdict swap = judge_output(kernel, name, swapped), shift = judge_output(kernel, name, shifted);
    CHECK(!swap.ok);
    CHECK(swap.outside > 150);
    CHECK(swap.outside <= 300);
    CHECK(swap.worst_strip_norm > 0.1);
    CHECK(swap.worst_strip_column == 0);
    CHECK(!shift.ok);
    CHECK(shift.outside > 100 * width);
  }
}

TEST_CASE("bytes that belong to nobody, and gaps") {
  const Kernel kernel(false);
  const Buffers stored = kernel.device(false);
  Buffers wrong = stored;
  wrong["y"].bytes[150 * width * 2] = 0;
  CHECK(judge_output(kernel, "y", wrong).touched == 1);
  wrong["q.scale"].bytes[150 * (width / 32)] = 1;
  CHECK(judge_output(kernel, "q", wrong).touched == 1);
  wrong["qt"].bytes[37] = 1;            // behind the first group
  wrong["qt.scale"].bytes[2] = 0x7F;    // a block that is all gap
  wrong["qt"].bytes[capacity - 1] = 0;  // behind the last group
  const Verdict verdict = judge_output(kernel, "qt", wrong);
  CHECK(!verdict.ok);
  CHECK(verdict.gap == 2);
  CHECK(verdict.touched == 1);
  CHECK(verdict.cause.find("gaps") != std::string::npos);
  // Another poison than the buffers held is seen.
  CHECK(judge_output(kernel, "y", stored, {nullptr, 0xA5}).touched == 50 * width * 2);
  CHECK(judge_output(kernel, "y", stored, {&stored, 0}).ok);
}

TEST_CASE("a systematic error inside all intervals is seen in the norms") {
  const Kernel kernel(false);
  Buffers wrong = kernel.device(false);
  for (int64_t i = 0; i < width * rows; ++i)
    if (i % rows < 150) store_one(wrong["f"], i, load_one(wrong["f"], i) * (1 + 3e-5));
  const Verdict verdict = judge_output(kernel, "f", wrong);
  INFO(verdict.print());
  CHECK(!verdict.ok);
  CHECK(verdict.norms_exceeded > 0);
}

TEST_CASE("a cast that goes the other way is no error of the arithmetic") {
  // Products rounded to f16 in the middle: here and there a number lies so near an edge that the device may round it to
  // the other side, by a step far above the limit of f32's norm.
  constexpr int64_t m_size = 512, n_size = 8;
  GraphBuilder g;
  g.dim("M", m_size), g.dim("N", n_size), g.dim("K", k_size);
  const Value h = g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "N, K"), "K");
  const Value rounded = g.cast(h, Storage::f16);
  g.out("c", "f32", "M, N", rounded);
  g.out("y", "f32", "M, N", rounded + g.cast(h, Storage::f32));  // that to f32 has no edges
  g.out("s", "f32", "M", rounded, ir::Reduction::sum);
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::bf16, {m_size, k_size}, 1);
  buffers["w"] = normal_tensor(Storage::bf16, {n_size, k_size}, 2, 0.08);
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  // One cast in `flips` of those that may goes the other way; the other numbers are off by so much of their interval.
  const auto stored_with = [&](int64_t flips, double share) {
    int64_t jumping = 0;
    Buffers stored = *run(g.graph, buffers);
    std::vector<double> sums(m_size);
    for (const int output : {0, 1}) {
      const Result<OutputWalk> walk = reference->walk(g.graph.outputs[output], true);
      for (int64_t t = 0; t < walk->tiles(); ++t) {
        const Tile tile = walk->tile(t);
        for (int64_t r = 0; r < tile.rows; ++r)
          for (int64_t c = 0; c < tile.cols; ++c) {
            const int64_t i = r * Tile::pitch + c;
            const double value = tile.value[i], low = tile.low[i], high = tile.high[i];
            double device = value + share * (high - value);
            if (tile.jumps[i] != 0) device = ++jumping % flips != 0 ? value : value - low > high - value ? low : high;
            store_one(stored[g.graph.outputs[output].tensor.name], walk->position(tile, r, c), device);
            if (output == 0) sums[tile.position[0] + r] += device;
          }
      }
    }
    for (int64_t m = 0; m < m_size; ++m) store_one(stored["s"], m, sums[m]);
    return stored;
  };
  const Buffers good = stored_with(8, 0);
  for (const ir::Output& output : g.graph.outputs) {
    const Verdict verdict = *judge(*reference, output, good);
    INFO(verdict.print());
    CHECK(verdict.ok);
    CHECK(verdict.more_steps > 0);
    CHECK(verdict.worst_strip_norm > verdict.norm_limit);
  }
  // What is systematic is still seen, in those that jump and in the others.
  for (const Buffers& wrong : {stored_with(1, 0), stored_with(8, 0.5)}) {
    const Verdict verdict = *judge(*reference, g.graph.outputs[1], wrong);
    INFO(verdict.print());
    CHECK(verdict.outside == 0);
    CHECK(verdict.norms_exceeded > 0);
  }
}

TEST_CASE("a comparison that goes the other way is no error of the arithmetic") {
  // 1 or 2 by a number that the device knows to 2^-20: beside its own value it may find it on either side.
  GraphBuilder g;
  g.dim("N", 64);
  const Value x = g.in("x", "f32", "N"), power = g.map(ir::Op::exp, {g.in("y", "f32", "N")});
  g.out("v", "f32", "N", g.map(ir::Op::select, {g.map(ir::Op::less, {x, power}), g.number(1), g.number(2)}));
  Buffers buffers;
  buffers["y"] = test::tensor_by(Storage::f32, {64}, [](int64_t) { return 0.0; });
  buffers["x"] = test::tensor_by(Storage::f32, {64}, [](int64_t i) { return i == 5 ? 1.0 : i % 2 * 2.0; });
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  Buffers stored = *run(g.graph, buffers);
  for (const double either : {1.0, 2.0}) {
    store_one(stored["v"], 5, either);
    const Verdict verdict = *judge(*reference, g.graph.outputs[0], stored);
    INFO(verdict.print());
    CHECK(verdict.ok);
  }
  store_one(stored["v"], 6, 3 - load_one(stored["v"], 6));  // its comparison is certain
  CHECK(judge(*reference, g.graph.outputs[0], stored)->outside == 1);
}

TEST_CASE("NaN must appear where it must, and nowhere else") {
  Kernel kernel(false);
  store_code(kernel.buffers["x"], 40 * k_size + 3, 0x7FC0);
  const Buffers stored = kernel.device(false);
  for (const std::string name : {"y", "q", "qt"}) {
    const Verdict verdict = judge_output(kernel, name, stored);
    INFO(verdict.print());
    CHECK(verdict.ok);
    CHECK(verdict.nan_reference == verdict.nan_stored);
    CHECK(verdict.nan_reference >= width);
  }
  Buffers wrong = stored;
  store_one(wrong["y"], 40 * width + 7, 1.0);
  CHECK(judge_output(kernel, "y", wrong).outside == 1);
  store_code(wrong["q.scale"], 40 * (width / 32), 0x7F);
  CHECK(judge_output(kernel, "q", wrong).scales_outside == 1);
}

TEST_CASE("what was added to is judged with what was there") {
  GraphBuilder g;
  g.dim("E", 2), g.dim("N", 16), g.dim("K", 16);
  g.group("M", "E", ir::GroupSizes::counts);
  g.out("dw", "f32", "E, N, K", g.gemm(g.in("dy", "bf16", "M, N"), g.in("x", "bf16", "M, K"), "M"), ir::Reduction::none,
        true);
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {2}, {8, 0});
  buffers["dy"] = integer_tensor(Storage::bf16, {8, 16}, 1);
  buffers["x"] = integer_tensor(Storage::bf16, {8, 16}, 2);
  Buffers before;
  before["dw"] = integer_tensor(Storage::f32, {2, 16, 16}, 3);
  Buffers bound = buffers;
  bound["dw"] = before["dw"];
  Buffers stored = *run(g.graph, bound);
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  CHECK(!judge(*reference, g.graph.outputs[0], stored));  // what it held is needed
  CHECK(judge(*reference, g.graph.outputs[0], stored, {&before, 0})->ok);
  store_one(stored["dw"], 300, 77);  // the empty group's
  const Verdict verdict = *judge(*reference, g.graph.outputs[0], stored, {&before, 0});
  CHECK(!verdict.ok);
  CHECK(verdict.touched > 0);
  CHECK(verdict.outside == 0);
}

TEST_CASE("a verdict is the same for any number of threads, and prints") {
  const Kernel kernel(false);
  Buffers stored = kernel.device(false);
  store_code(stored["q"], 7, load_code(stored["q"], 7) ^ 0x10);
  std::string texts[2], json;
  for (int threads : {1, 5}) {
    const Result<Reference> reference = Reference::make(kernel.g.graph, kernel.buffers, {}, *kernel.gemm, threads);
    const Verdict verdict = *judge(*reference, kernel.g.graph.outputs[2], stored);
    texts[threads == 5] = verdict.print();
    json = verdict.to_json();
  }
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0].find("q: WRONG: ") == 0);
  CHECK(texts[0].find("worst element at M = 0, I = 7 (group 0)") != std::string::npos);
  const auto parsed = nlohmann::json::parse(json);
  CHECK(parsed["ok"] == false);
  CHECK(parsed["worst"]["place"]["I"] == 7);
}

}  // namespace
}  // namespace epifuse::interpreter
