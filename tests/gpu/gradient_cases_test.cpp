// Cases of weight gradients, and of backward kernels under every schedule, on the device: README.md of tests/cases says
// what each is about.
#include <fmt/format.h>

#include "jit/run.h"
#include "tests/gpu/support/cases.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

// Every way to store a weight gradient; `experts` is the shape of their number ("[E, " or "[E][").
std::string wgrad_spec(const std::string& experts, const std::string& clause = "") {
  std::string text = "kernel wgrad {\n  dim E = 5, K = 72, I = 168\n  group M by E" + clause +
                     "\n  in dh : bf16[M, I]\n  in x : bf16[M, K]\n  v = gemm(dh, x)\n";
  for (const std::string type : {"f32", "bf16"})
    for (const std::string store : {"= v", "+= v"})
      text +=
          fmt::format("  out {}_{} : {}{}I, K] {}\n", store[0] == '=' ? "stored" : "added", type, type, experts, store);
  return text + "}\n";
}

void verify(const jit::CompiledKernelPtr& kernel, const std::vector<int64_t>& counts, jit::DataMode mode,
            int64_t slack = 37) {
  jit::VerifyOptions options;
  options.inputs.counts = counts;
  options.inputs.mode = mode;
  options.inputs.slack_rows = slack;
  options.inputs.seed = counts.size();
  const auto report = must(jit::verify(engine(), kernel, options, gpu().device));
  INFO(kernel->schedule() << ", mode " << static_cast<int>(mode) << "\n" << report.print());
  CHECK(report.ok);
}

// The outputs of a run whose adding outputs held 1 before.
Buffers run_on_ones(const jit::CompiledKernelPtr& kernel, Buffers inputs) {
  for (auto& [name, tensor] : output_shapes(kernel, inputs)) {
    if (!name.starts_with("added")) continue;
    for (int64_t i = 0; i < tensor.elements(); ++i) store_one(tensor, i, 1);
    inputs[name] = std::move(tensor);
  }
  return must(jit::run_on_gpu(engine(), kernel, inputs, {}, gpu().device));
}

// Elements of an expert that do not hold `value`, by their bits.
int64_t others(const HostTensor& tensor, int64_t expert, double value) {
  const int64_t size = tensor.elements() / tensor.extents[0];
  const uint32_t code = encode(tensor.storage, value);
  int64_t found = 0;
  for (int64_t i = expert * size; i < (expert + 1) * size; ++i) found += interpreter::load_code(tensor, i) != code;
  return found;
}

// Names of the outputs that are not the same bytes.
std::string different(const Buffers& a, const Buffers& b) {
  std::string names;
  for (const auto& [name, tensor] : a)
    if (tensor.bytes != b.at(name).bytes) names += name + " ";
  return names;
}

}  // namespace

TEST_CASE("B01: the weight gradient of experts without tokens is zero, for the counts for which it was not") {
  const auto kernel = compile_spec(
      "kernel wgrad {\n  dim E = 6, K = 1024, I = 384\n  group M by E\n  in dh : bf16[M, I]\n  in x : bf16[M, K]\n"
      "  out dw : f32[E, I, K] = gemm(dh, x)\n}\n");
  const std::vector<int64_t> counts = {162, 0, 2577, 446, 0, 83};
  verify(kernel, counts, jit::DataMode::integers);
  const Buffers out = ProblemRun(kernel, made_inputs(kernel, counts, 0)).run(0xFF);
  for (const int64_t expert : {1, 4}) CHECK(others(out.at("dw"), expert, 0) == 0);
}

TEST_CASE("B01 B03 B05 B07: weight gradients with empty experts, stored and added, into what was poisoned or full") {
  const auto kernel = compile_spec(wgrad_spec("[E, "));
  // Inputs end at an unmapped page, also without slack.
  for (const std::vector<int64_t>& counts :
       {std::vector<int64_t>{0, 5, 0, 130, 4096}, {0, 256, 0, 128, 0}, {7, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}) {
    INFO("counts from " << counts[0] << ", " << counts[1]);
    verify(kernel, counts, jit::DataMode::integers, 0);
    verify(kernel, counts, jit::DataMode::normal);
    const Buffers out = run_on_ones(kernel, made_inputs(kernel, counts, 0));
    for (int64_t e = 0; e < 5; ++e) {
      if (counts[static_cast<size_t>(e)] != 0) continue;
      for (const char* type : {"f32", "bf16"}) {
        CHECK(others(out.at(std::string("stored_") + type), e, 0) == 0);
        CHECK(others(out.at(std::string("added_") + type), e, 1) == 0);
      }
    }
  }
}

TEST_CASE("B13 B14: rows of nobody, full of NaN, between groups and behind them reach no weight gradient") {
  for (const std::string clause : {" counts align 128", " align 8"})
    verify(compile_spec(wgrad_spec("[E, ", clause)), {5, 130, 0, 1, 127}, jit::DataMode::normal);
}

TEST_CASE("B77: weights in one buffer and in one buffer for each expert have the same gradients") {
  const auto packed = compile_spec(wgrad_spec("[E, ")), apart = compile_spec(wgrad_spec("[E]["));
  const Buffers inputs = made_inputs(packed, {0, 77, 130, 0, 300}, 3);
  const Buffers one = run_on_ones(packed, inputs), other = run_on_ones(apart, inputs);
  REQUIRE(one.size() == 4);
  CHECK(different(one, other) == "");
  CHECK(others(one.at("added_f32"), 1, 1) != 0);  // something was added
}

TEST_CASE("B69: every schedule of a forward and of a backward kernel, judged by strips of 16 columns") {
  const std::string text = file_text("specs/swiglu_mlp.epi");
  const std::map<std::string, int64_t> dims = {{"E", 8}, {"H", 1024}, {"I", 512}};
  for (const std::string kernel : {"fc1", "fc2_dgrad"}) {
    INFO(kernel);
    const auto kernels = compile_every_schedule(text, kernel, dims);
    CHECK(kernels.size() >= 4);
    for (const auto& one : kernels) verify(one, {700, 0, 1, 1111, 128, 500, 33, 600}, jit::DataMode::normal);
  }
}

TEST_CASE("B87: groups of few tiles, whole bands and broken ones, leave no tile out under any schedule") {
  const std::string forward =
      "kernel forward {\n  dim E = 4, K = 64, N = 64\n  group M by E\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n"
      "  out y : bf16[M, N] = gemm(x, w)\n}\n";
  const std::string wgrad =
      "kernel wgrad {\n  dim E = 4, R = 384, N = 64\n  group M by E\n  in dh : bf16[M, R]\n  in x : bf16[M, N]\n"
      "  out dw : bf16[E, R, N] = gemm(dh, x)\n}\n";
  for (const auto& [text, name] : {std::pair{forward, "forward"}, {wgrad, "wgrad"}}) {
    // 2 and 3 tiles in the columns of the widest and the narrowest; 9 and more, so that a band ends inside.
    for (const int64_t columns : {384, 1672}) {
      const auto kernels = compile_every_schedule(text, name, {{"N", columns}});
      CHECK(kernels.size() >= 4);
      for (const auto& kernel : kernels) {
        INFO(name << " with " << columns << " columns");
        verify(kernel, {256, 384, 0, 100}, jit::DataMode::integers, 0);
      }
    }
  }
}

TEST_CASE("B126: every reduction has the same bits in 20 runs, at every margin and under every schedule") {
  const std::string backward =
      "kernel backward {\n  dim E = 4, H = 192, I = 320\n  group M by E\n  in dy : bf16[M, H]\n"
      "  in w2 : bf16[E, H, I]\n  in pre : bf16[M, 2*I]\n  in prob : f32[M]\n  gate, up = split(pre)\n"
      "  act = gate * sigmoid(gate) * up * prob\n  dh, dprob = grad(act, gemm(dy, w2), pre, prob)\n"
      "  out dh : bf16[M, 2*I] = dh\n  out dprob : f32[M] = sum(dprob)\n  out dbias : f32[E, 2*I] = sum(dh)\n"
      "  out top : f32 = amax(dh)\n  out tops : f32[E] = amax(dh)\n}\n";
  const std::string wgrad =
      "kernel wgrad {\n  dim E = 4, K = 192, I = 320\n  group M by E\n  in dh : bf16[M, I]\n  in x : bf16[M, K]\n"
      "  v = gemm(dh, x)\n  out dw : f32[E, I, K] = v\n  out top : f32 = amax(v)\n}\n";
  for (const auto& [text, name] : {std::pair{backward, "backward"}, {wgrad, "wgrad"}}) {
    const auto kernels = compile_every_schedule(text, name, {});
    CHECK(kernels.size() >= 4);
    const Buffers inputs = made_inputs(kernels.front(), {1500, 0, 213, 1024}, 37);
    const Buffers first = ProblemRun(kernels.front(), inputs).run(0xFF);
    for (const auto& kernel : kernels) {
      INFO(name << " under " << kernel->schedule());
      ProblemRun problem(kernel, inputs);
      for (int run = 0; run < 20; ++run) CHECK(different(first, problem.run(0xFF)) == "");
      for (const int margin : {1, gpu().device->info().sm_count / 2, gpu().device->info().sm_count - 1})
        CHECK(different(first, problem.run(0xFF, margin)) == "");
    }
  }
}
