// Kernels without gemm on the device: the kinds of launches at small sizes, and memory passes over the group sizes and
// shapes that break kernels.
#include <algorithm>

#include "jit/run.h"
#include "jit/verify.h"
#include "tests/codegen/pointwise_specs.h"
#include "tests/gpu/support/cases.h"
#include "tests/gpu/support/kernels.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using jit::DataMode;

namespace {

// Under every plan: one pass over tiles where there is such a plan, and the general launches.
void verify_all_modes(const std::string& text, const std::map<std::string, int64_t>& dims, jit::VerifyOptions options) {
  std::vector<std::string> schedules = {""};
  if (compile_spec(text, dims)->planned.lowered.plans.size() > 1) schedules.push_back("pointwise");
  for (const std::string& schedule : schedules) {
    const auto kernel = compile_spec(text, dims, schedule);
    INFO("plan '" << schedule << "'");
    CHECK(kernel->image.spill_bytes == 0);
    uint64_t seed = 0;
    for (const DataMode mode : {DataMode::integers, DataMode::normal, DataMode::scaled}) {
      options.inputs.mode = mode;
      options.inputs.seed = ++seed;
      const auto report = must(jit::verify(engine(), kernel, options, gpu().device));
      INFO("mode " << static_cast<int>(mode) << "\n" << report.print());
      CHECK(report.ok);
    }
  }
}

// A pass over ragged rows with every kind of output.
const std::string rows_spec = pointwise_text(
    "rows",
    "dim E = 4, N = 256\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, 2*N]\nin prob : f32[M] = 1\nin b : f32[E, "
    "N]\n"
    "a, c = split(x)\nv = a * sigmoid(a) * c * prob + b\nout y : bf16[M, N] = v\nout q : mxfp8[M, N] = v\n"
    "out qt : mxfp8[N, P] = v\nout t : bf16[N, P] = v\nout row : f32[M] = sum(v)\nout rowa : f32[M] = amax(v)\n"
    "out col : f32[E, N] += sum(v)\nout ga : f32[E] = amax(v)\nout all : f32 = sum(v)\nout ends : i32[E] = P.ends");

// The same without what only the general launches do, and with columns that alternate.
const std::string tiles_spec = pointwise_text(
    "tiles",
    "dim E = 4, N = 256\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, 2*N]\nin d : f32[M, N]\n"
    "in prob : f32[M] = 1\nin b : f32[E, N]\na, c = split(x, 1)\nv = a * sigmoid(a) * c * prob + b\n"
    "g = grad(a * sigmoid(a) * c, d, x)\nout y : bf16[M, N] = v\nout q : mxfp8[M, N] = v\nout qt : mxfp8[N, P] = v\n"
    "out t : bf16[N, P] = v\nout gq : mxfp8[M, 2*N] = g\nout gt : mxfp8[2*N, P] = g\nout gb : bf16[M, 2*N] += g\n"
    "out row : f32[M] = sum(v)\nout rowa : f32[P] = amax(v)\nout col : f32[E, N] += sum(v)\nout ga : f32[E] = amax(v)\n"
    "out all : f32 = sum(v)");

}  // namespace

TEST_CASE("every kind of pointwise launch is right") {
  for (const PointwiseSpec& spec : pointwise_specs()) {
    INFO(spec.text);
    jit::VerifyOptions options;
    if (!spec.counts.empty()) options.inputs.counts = spec.counts;
    options.inputs.sizes = spec.sizes;
    options.inputs.slack_rows = spec.slack_rows;
    verify_all_modes(spec.text, {}, options);
  }
}

TEST_CASE("a pointwise pass is right on ragged groups") {
  struct Set {
    std::map<std::string, int64_t> dims;
    std::optional<std::vector<int64_t>> counts;
    int64_t slack_rows;
  };
  const std::vector<Set> sets = {
      {{{"E", 7}, {"N", 256}}, {{0, 1, 127, 129, 1000, 0, 4096}}, 37},
      {{{"E", 7}, {"N", 256}}, {{0, 1, 127, 129, 1000, 0, 4096}}, 0},
      {{{"E", 8}, {"N", 128}}, {{0, 0, 0, 0, 0, 0, 0, 1000}}, 37},
      {{{"E", 8}, {"N", 128}}, {{0, 0, 0, 0, 0, 0, 0, 0}}, 37},
      {{{"E", 128}, {"N", 128}}, std::nullopt, 37},
      {{{"E", 4}, {"N", 2880}}, {{0, 301, 64, 0}}, 37},
      {{{"E", 3}, {"N", 37}}, {{33, 0, 130}}, 5},
      {{{"E", 1}, {"N", 8}}, {{1}}, 0},
  };
  for (const Set& set : sets) {
    jit::VerifyOptions options;
    options.inputs.counts = set.counts;
    options.inputs.slack_rows = set.slack_rows;
    verify_all_modes(rows_spec, set.dims, options);
    if (set.dims.at("N") % 32 == 0) verify_all_modes(tiles_spec, set.dims, options);
  }
}

TEST_CASE("rows behind the last group reach no pointwise result, and no sum depends on the grid") {
  const auto kernel = compile_spec(rows_spec);
  ProblemRun problem(kernel, made_inputs(kernel, {200, 0, 333, 67}, 300));
  const Buffers first = problem.run(0x5A);
  for (const int margin : {1, gpu().device->info().sm_count / 2, gpu().device->info().sm_count - 1}) {
    const Buffers again = problem.run(0x5A, margin);
    for (const auto& [name, tensor] : first) {
      INFO(name << ", margin " << margin);
      CHECK((tensor.bytes == again.at(name).bytes));
    }
  }
}

TEST_CASE("more elements than 32 bits can count") {
  // 70000 x 65536 elements of one byte: offsets pass 2^32.
  const std::string text = pointwise_text(
      "large", "dim N = 65536\ndyn S\nin x : e4m3[S, N]\nout y : e4m3[S, N] = -x\nout row : f32[S] = amax(x)");
  const auto kernel = compile_spec(text);
  constexpr int64_t rows = 70000, columns = 65536;
  Buffers inputs;
  inputs["x"] = interpreter::make_tensor(Storage::e4m3, {rows, columns}, 0x38);  // 1
  const auto outputs = must(jit::run_on_gpu(engine(), kernel, inputs, {}, gpu().device));
  const auto& y = outputs.at("y").bytes;
  CHECK(std::all_of(y.begin(), y.end(), [](uint8_t code) { return code == 0xB8; }));
  for (const int64_t row : {int64_t{0}, int64_t{65536}, rows - 1})
    CHECK(interpreter::load_one(outputs.at("row"), row) == 1);
}
