// Backward kernels that are derived have plans, those of every training step in specs/ and of an activation of one's
// own; the latter's are also compiled.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "compiler/compiler.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/chain/chain_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Every kernel of a text, planned for sm_90a without a word.
std::vector<PlannedKernel> plan_all(const std::string& text) {
  Diagnostics diagnostics;
  MemorySource source({});
  const Program program = load_program("backward.epi", text, source, diagnostics);
  std::vector<PlannedKernel> planned;
  for (const std::string& kernel : kernel_names(program)) {
    CompilerOptions options;
    options.target.name = "sm_90a";
    std::optional<PlannedKernel> plan = plan_kernel(program, kernel, options, diagnostics);
    INFO(text << "\n" << kernel << "\n" << diagnostics.print());
    REQUIRE(plan);
    CHECK(!plan->lowered.plans.empty());
    CHECK(diagnostics.all().empty());
    planned.push_back(*std::move(plan));
  }
  return planned;
}

bool has_kernel(const std::vector<PlannedKernel>& planned, const std::string& name) {
  return std::any_of(planned.begin(), planned.end(),
                     [&](const PlannedKernel& kernel) { return kernel.graph.name == name; });
}

}  // namespace

TEST_CASE("what is derived of every training step in specs has plans, and nothing is said of it") {
  const std::pair<const char*, std::vector<std::string>> chains[] = {
      {"swiglu_mlp", {"fc1", "fc2"}},
      {"gpt_oss_mlp", {"fc1", "fc2"}},
      {"geglu_mlp", {"fc1", "fc2"}},
      {"squared_relu_mlp", {"fc1", "fc2"}},
      {"dense_mlp", {"fc1", "fc2"}},
      {"tanh_squared_glu", {"fc1", "fc2"}},
      {"swiglu_mlp", {"fc1_f32"}},
      {"swiglu_mlp", {"fc1_mxfp8"}},
      {"swiglu_mlp", {"fc2"}},
      {"separate_gate_up", {"fc1"}},
      {"separate_gate_up", {"fc1_per_expert"}},
  };
  for (const auto& [file, chain] : chains) {
    INFO(file << ", " << chain.front());
    const std::vector<PlannedKernel> planned =
        plan_all(derive(read_file(std::string("specs/") + file + ".epi"), chain));
    for (const std::string& kernel : chain) CHECK((has_kernel(planned, kernel + "_wgrad") || planned.size() > 2));
    if (chain.size() == 2)
      for (const char* name : {"fc2_dgrad", "fc1_dgrad", "fc1_wgrad", "fc2_wgrad"}) CHECK(has_kernel(planned, name));
  }
}

TEST_CASE("whatever the forward keeps values as, a gradient has the type of the gemm that reads it") {
  const std::string bf16 = own_activation_layers("bf16", "E = 4, K = 256, I = 256");
  const std::string kept[][2] = {{"out pre : bf16", "out pre : f32"},
                                 {"out pre : bf16", "out pre : f16"},
                                 {"out y : bf16", "out y : f32"},
                                 {"out y : bf16", "out y : mxfp8"}};
  for (const auto& [from, to] : kept) {
    std::string forward = bf16;
    REQUIRE(forward.find(from) != std::string::npos);
    forward.replace(forward.find(from), from.size(), to);
    const std::string derived = derive(forward, {"fc1", "fc2"});
    INFO(to);
    CHECK(plan_all(derived).size() == 4);
    CHECK(kernel_of(derived, "fc2_wgrad").find("in  dy    : bf16[M, K]\n") != std::string::npos);
    CHECK(kernel_of(derived, "fc2_dgrad").find("out dh    : bf16[M, 2*I] = dh\n") != std::string::npos);
    CHECK(kernel_of(derived, "fc1_wgrad").find("in  dh    : bf16[M, 2*I]\n") != std::string::npos);
    CHECK(kernel_of(derived, "fc1_dgrad").find("in  dh    : bf16[M, 2*I]\n") != std::string::npos);
  }
  // What is saved is read as it was stored.
  std::string forward = bf16;
  forward.replace(forward.find("out pre : bf16"), 14, "out pre : f32");
  CHECK(kernel_of(derive(forward, {"fc1", "fc2"}), "fc2_dgrad").find("in  pre   : f32[M, 2*I]\n") != std::string::npos);
}

TEST_CASE("an activation of one's own: from a spec to forward and backward kernels that do not spill") {
  const std::string forward = own_activation_layers("bf16", "E = 4, K = 256, I = 256");
  std::vector<PlannedKernel> kernels = plan_all("use \"activations.epi\"\n" + forward);
  for (PlannedKernel& kernel : plan_all(derive(forward, {"fc1", "fc2"}))) kernels.push_back(std::move(kernel));
  REQUIRE(kernels.size() == 6);

  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("not compiled: %s\n", location.error().message.c_str());
    return;
  }
  std::vector<std::optional<Result<toolchain::CompileOutcome>>> outcomes(kernels.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++)
      outcomes[i] = nvrtc.compile(compile_request(kernels[i], kernels[i].lowered.plans.front()));
  };
  std::thread other(work);
  work();
  other.join();
  for (size_t i = 0; i < kernels.size(); ++i) {
    INFO(kernels[i].graph.name);
    if (!*outcomes[i]) {
      FAIL_CHECK(outcomes[i]->error().message);
      continue;
    }
    const toolchain::CompileOutcome& outcome = **outcomes[i];
    std::printf("%-12s %-20s %3d registers %4d spill bytes %6.0f ms\n", kernels[i].graph.name.c_str(),
                lowering::schedule_name(kernels[i].lowered.plans.front().schedule).c_str(), outcome.registers,
                outcome.spill_bytes, outcome.milliseconds);
    CHECK(outcome.spill_bytes == 0);
    CHECK(!outcome.wgmma_serialized);
  }
}
