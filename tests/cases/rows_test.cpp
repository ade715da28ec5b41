// Cases of experts without tokens, of rows that belong to nobody, and of rows that are zero, on the interpreter.
// README.md says what each case is about; what concerns the device is in tests/gpu/cases_test.cpp.
#include <limits>
#include <numeric>

#include "tests/cases/padded_groups.h"
#include "tests/cases/run_spec.h"

namespace epifuse {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;
using interpreter::load_code;
using interpreter::load_one;
using namespace test;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> as_doubles(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

constexpr auto wgrad_spec =
    "kernel wgrad {\n  dim E = 6, K = 16, I = 24\n  group M by E counts\n  in dh : bf16[M, I]\n  in x : bf16[M, K]\n"
    "  out dw : f32[E, I, K] = gemm(dh, x)\n  out main : f32[E, I, K] += gemm(dh, x)\n}\n";

// One step of the weight gradient on whole numbers, against sums written down here. The outputs hold what `before` has.
Buffers check_wgrad(const std::vector<int64_t>& counts, const Buffers& before) {
  const auto groups = static_cast<int64_t>(counts.size());
  const ir::Graph graph = graph_of(wgrad_spec, {{"E", groups}});
  Buffers buffers = made_inputs(graph, counts, 5, jit::DataMode::integers);
  buffers.insert(before.begin(), before.end());
  const Buffers out = interpret(graph, buffers);
  const std::vector<double> dh = values_of(buffers.at("dh")), x = values_of(buffers.at("x"));
  int64_t first = 0, wrong = 0;
  for (int64_t e = 0; e < groups; first += counts[static_cast<size_t>(e++)]) {
    for (int64_t i = 0; i < 24; ++i)
      for (int64_t k = 0; k < 16; ++k) {
        double sum = 0;
        for (int64_t m = first; m < first + counts[static_cast<size_t>(e)]; ++m)
          sum += dh[static_cast<size_t>(m * 24 + i)] * x[static_cast<size_t>(m * 16 + k)];
        const int64_t at = (e * 24 + i) * 16 + k;
        // By their bits: the sum of nothing is +0, and a buffer that is added to keeps its own bits.
        wrong += load_code(out.at("dw"), at) != encode(Storage::f32, sum);
        const double held = load_one(before.at("main"), at);
        wrong += load_code(out.at("main"), at) != encode(Storage::f32, held + sum);
      }
  }
  CHECK(wrong == 0);
  return out;
}

Buffers ones_and_poison(int64_t groups) {
  return {{"dw", interpreter::make_tensor(Storage::f32, {groups, 24, 16}, 0xFF)},
          {"main", tensor_by(Storage::f32, {groups, 24, 16}, [](int64_t) { return 1.0; })}};
}

}  // namespace

TEST_CASE("B01 B05: the weight gradient of an expert without tokens is +0, or what was there") {
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{162, 0, 2577, 446, 0, 83}, {7, 0, 0, 0}, {0, 0}}) {
    check_wgrad(counts, ones_and_poison(static_cast<int64_t>(counts.size())));
  }
}

TEST_CASE("B04: few tokens for many experts, in the memory of a step in which all were busy") {
  const int64_t groups = 256;
  std::vector<int64_t> few(groups, 0);
  for (int64_t e = 0; e < groups; e += 4) few[static_cast<size_t>(e)] = 1;
  REQUIRE(std::accumulate(few.begin(), few.end(), int64_t{0}) == 64);
  Buffers memory = check_wgrad(std::vector<int64_t>(groups, 3), ones_and_poison(groups));
  memory = check_wgrad(few, memory);
  check_wgrad(std::vector<int64_t>(groups, 0), memory);
}

TEST_CASE("B08: a stage without rows is done at once") {
  const ir::Graph graph = graph_of(
      "use \"activations.epi\"\nkernel stages {\n  dim N = 64\n  dyn S\n  in x : bf16[S, N]\n  v = silu(x)\n"
      "  out act : bf16[S, N] = v\n  out q : mxfp8[S, N] = v\n  out t : bf16[N, S] = v\n  out s : f32[N] = sum(v)\n}\n",
      {});
  const Buffers out = interpret(graph, {{"x", interpreter::make_tensor(Storage::bf16, {0, 64})}});
  for (const char* name : {"act", "q", "q.scale", "t"}) CHECK(out.at(name).bytes.empty());
  CHECK(values_of(out.at("s")) == std::vector<double>(64, 0));
}

TEST_CASE("B09 B96: packed, padded by the caller, and aligned by us are the same rows") {
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0, 1, 7, 8, 9, 0}, {8, 16, 64, 0, 0, 0}}) {
    const ir::Graph packed = graph_of(padded_spec(""), {}), aligned = graph_of(padded_spec(" align 8"), {});
    const PaddedGroups groups(counts, 8);
    const Buffers raw = made_inputs(packed, counts, 0);
    Buffers padded = raw;
    for (const char* name : {"x", "p"}) padded[name] = groups.pad(raw.at(name));
    const Buffers ours = interpret(aligned, padded);
    padded["M.counts"] = tensor_of(Storage::i32, {6}, as_doubles(groups.padded_counts));
    const Buffers one = interpret(packed, raw), theirs = interpret(packed, padded);
    for (const char* name : {"y", "q", "q.scale"}) {
      INFO(name);
      CHECK((groups.rows_of(one.at(name), false) == groups.rows_of(theirs.at(name), true)));
      CHECK((groups.rows_of(one.at(name), false) == groups.rows_of(ours.at(name), true)));
    }
    // Over P groups start at multiples of 128 anyway. (Pads that a caller counts as tokens share blocks with others.)
    for (const char* name : {"t", "t.scale"}) CHECK(different_columns(one.at(name), ours.at(name)) == 0);
  }
}

TEST_CASE("B10: of a slot, the rows of its tokens are written and no others") {
  const ir::Graph graph = graph_of(
      "kernel slots {\n  dim E = 4, N = 24, C = 512\n  group M by E counts slot C\n  in x : bf16[M, N]\n"
      "  out y : bf16[M, N] = 2 * x\n  out q : mxfp8[M, N] = x\n}\n",
      {});
  const std::vector<double> counts = {256, 0, 128, 384};
  Buffers buffers = {{"x", normal_tensor(Storage::bf16, {2048, 24}, 1)},
                     {"M.counts", tensor_of(Storage::i32, {4}, counts)}};
  for (size_t e = 0; e < 4; ++e)
    set_rows(buffers["x"], static_cast<int64_t>(e) * 512 + static_cast<int64_t>(counts[e]),
             static_cast<int64_t>(e + 1) * 512, nan);
  const Buffers out = interpret(graph, buffers, 0x5A);
  int64_t wrong = 0;
  for (int64_t row = 0; row < 2048; ++row) {
    const bool valid = row % 512 < static_cast<int64_t>(counts[static_cast<size_t>(row / 512)]);
    for (int64_t i = row * 24; i < (row + 1) * 24; ++i) {
      wrong +=
          valid ? load_one(out.at("y"), i) != 2 * load_one(buffers.at("x"), i) : load_code(out.at("y"), i) != 0x5A5A;
      wrong += !valid && load_code(out.at("q"), i) != 0x5A;
    }
    wrong += !valid && load_code(out.at("q.scale"), row) != 0x5A;
  }
  CHECK(wrong == 0);
}

namespace {

// Whatever the rows behind the last group hold, what is stored is what is stored when they are zero, and finite.
void check_tails(const ir::Graph& graph, const std::vector<int64_t>& counts, int64_t capacity) {
  const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  Buffers inputs = made_inputs(graph, counts, capacity - rows);
  const std::vector<std::string> tailed = token_inputs(graph);
  REQUIRE_FALSE(tailed.empty());
  const auto run_with = [&](double tail, uint8_t poison) {
    for (const std::string& name : tailed) set_rows(inputs.at(name), rows, capacity, tail);
    return interpret(graph, inputs, poison);
  };
  const WrittenBytes clean([&](uint8_t poison) { return run_with(0, poison); });
  CHECK(clean.not_finite() == "");
  for (const ir::Output& output : graph.outputs) CHECK(clean.count(output.tensor.name) > 0);
  for (const double tail : {nan, infinity, 1e30}) {
    INFO(graph.name << ", a tail of " << tail);
    CHECK(clean.difference(run_with(tail, 0x5A), 0x5A) == "");
  }
}

}  // namespace

TEST_CASE("B12 B16: rows behind the last group reach nothing, forward and backward") {
  const std::string examples = read_file("tests/semantics/language_examples.epi");
  const std::vector<int64_t> counts = {200, 0, 333, 67};
  check_tails(graph_of(examples, {{"E", 4}, {"K", 24}, {"I", 40}}, "moe_fc1_swiglu"), counts, 1024);
  // The gradient of relu(a) p written out: of the pre-activation, of p, and of a bias.
  check_tails(graph_of("kernel backward {\n  dim E = 4, H = 24, I = 40\n  group M by E\n  group P = M align 128\n"
                       "  in dy : bf16[M, H]\n  in w : bf16[E, I, H]\n  in pre : bf16[M, I]\n  in p : f32[M]\n"
                       "  da = gemm(dy, w)\n  dh = select(pre > 0, da * p, 0)\n  out dh_q : mxfp8[M, I] = dh\n"
                       "  out dh_t : mxfp8[I, P] = dh\n  out dp : f32[M] = sum(da * max(0, pre))\n"
                       "  out db : f32[E, I] = sum(dh)\n  out most : f32[E] = amax(dh)\n}\n",
                       {}),
              counts, 1024);
  check_tails(graph_of("kernel wgrad {\n  dim E = 4, K = 24, I = 40\n  group M by E\n  in dh : bf16[M, I]\n"
                       "  in x : bf16[M, K]\n  out dw : f32[E, I, K] = gemm(dh, x)\n}\n",
                       {}),
              counts, 1024);
}

TEST_CASE("B16: every example spec is safe to copy") {
  for (const std::string& path : example_paths()) {
    if (!path.starts_with("specs/") || path == "specs/dense_gemm_residual.epi") continue;  // without groups, no tail
    INFO(path);
    Dims dims = {{"E", 3}, {"K", 24}};
    const std::string text = read_file(path);
    dims[text.find(" I = ") == std::string::npos ? "N" : "I"] = 40;
    check_tails(graph_of(text, dims), {33, 0, 7}, 64);
  }
}

TEST_CASE("B14: pads between groups, full of NaN, reach no weight gradient") {
  const auto spec = [](const std::string& clause) {
    return "kernel wgrad {\n  dim E = 2, K = 16, I = 24\n  group M by E counts" + clause +
           "\n  in dh : bf16[M, I]\n  in x : bf16[M, K]\n  out dw : f32[E, I, K] = gemm(dh, x)\n}\n";
  };
  const ir::Graph packed = graph_of(spec(""), {}), slotted = graph_of(spec(" align 128"), {});
  const Buffers tight = made_inputs(packed, {5, 130}, 0);
  Buffers padded = {{"M.counts", tight.at("M.counts")}};
  for (const std::string name : {"dh", "x"}) {
    const HostTensor& from = tight.at(name);
    const int64_t width = from.extents[1];
    HostTensor& to = padded[name] = interpreter::make_tensor(Storage::bf16, {128 + 256, width}, 0xFF);
    for (int64_t i = 0; i < 135 * width; ++i) store_code(to, (i < 5 * width ? 0 : 123 * width) + i, load_code(from, i));
  }
  CHECK((interpret(packed, tight).at("dw").bytes == interpret(slotted, padded).at("dw").bytes));
}

TEST_CASE("B17: rows of zeros become zero codes under a finite scale") {
  const ir::Graph graph = graph_of(
      "kernel zeros {\n  dim E = 1, K = 16, N = 72\n  group M by E\n  group P = M align 128\n  in x : bf16[M, K]\n"
      "  in w : bf16[E, N, K]\n  v = gemm(x, w)\n  out q : mxfp8[M, N] = v\n  out q5 : mxfp8(elem = e5m2)[M, N] = v\n"
      "  out t : mxfp8[N, P] = v\n}\n",
      {});
  Buffers inputs = made_inputs(graph, {130}, 0);
  set_rows(inputs.at("x"), 128, 130, 0);
  const WrittenBytes written([&](uint8_t poison) { return interpret(graph, inputs, poison); });
  CHECK(written.not_finite() == "");
  const Buffers& out = written.outputs();
  int64_t wrong = 0;
  for (int64_t i = 128 * 72; i < 130 * 72; ++i)
    wrong += load_code(out.at("q"), i) != 0 || load_code(out.at("q5"), i) != 0;
  for (int64_t n = 0; n < 72; ++n)
    for (int64_t p = 128; p < 256; ++p) wrong += load_code(out.at("t"), n * out.at("t").extents[1] + p) != 0;
  CHECK(wrong == 0);
}

}  // namespace epifuse
