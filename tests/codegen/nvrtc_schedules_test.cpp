// What NVRTC makes of kernels whose tiles a counter deals out: no spill, no serialised wgmma. And of entries of every
// kind: each waits for the launches before it before it touches memory, since it may be started while they run.
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

bool has(std::string_view line, std::string_view text) { return line.find(text) != std::string_view::npos; }

bool touches_memory(std::string_view line) {
  for (const std::string_view instruction :
       {"ld.global", "st.global", "atom.global", "red.global", "cp.async", "fence.proxy.tensormap", "prefetch.global"})
    if (has(line, instruction)) return true;
  return false;
}

// Faults of the entries of a PTX text: entries that never wait, and the first line of each that touches memory before.
std::vector<std::string> unordered_entries(std::string_view ptx, size_t& entries) {
  std::vector<std::string> faults;
  std::string entry;
  bool waited = false, fault = false;
  entries = 0;
  const auto close = [&] {
    if (!entry.empty() && !waited) faults.push_back(entry + ": never waits");
    entry.clear();
  };
  for (size_t begin = 0; begin < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', begin), ptx.size());
    const std::string_view line = ptx.substr(begin, end - begin);
    begin = end + 1;
    if (has(line, ".entry ")) {
      close();
      entry = line, waited = fault = false;
      ++entries;
    }
    if (has(line, "griddepcontrol.wait")) waited = true;
    if (!entry.empty() && !waited && !fault && touches_memory(line)) {
      faults.push_back(entry + ": " + std::string(line));
      fault = true;
    }
  }
  close();
  return faults;
}

struct Kernel {
  std::string name;
  LoweredText lowered;
};

std::vector<Kernel> kernels() {
  std::vector<Kernel> list;
  const auto spec = [&](const std::string& name, const std::string& schedule) {
    list.push_back({name + ", " + schedule, lower_spec("specs/" + name + ".epi", schedule)});
  };
  const auto text = [&](const std::string& text, const std::string& schedule) {
    list.push_back({text + schedule, lower_text(text, schedule)});
  };
  spec("grouped_gemm", "pingpong 128x192 dynamic");
  spec("grouped_gemm", "cooperative 128x256 dynamic");
  spec("moe_fc1_swiglu", "pingpong 128x128 dynamic");
  spec("moe_fc2_dgrad_dswiglu", "pingpong 128x128 dynamic");
  spec("grouped_gemm", "cooperative 128x256 pairs");
  spec("moe_fc2_dgrad_dswiglu", "pingpong 128x128 pairs");
  spec("moe_fc1_wgrad", "pingpong 128x128 dynamic");
  spec("moe_fc1_wgrad", "cooperative 128x256 dynamic");
  spec("rowwise_fp8_quant", "");
  spec("rowwise_fp8_quant", "pointwise");
  text(
      "kernel pointers {\n dim E = 3, K = 64, N = 128\n group M by E\n group P = M align 128\n in x : bf16[M, K]\n"
      " in w : bf16[E][N, K]\n out y : bf16[M, N] = gemm(x, w)\n out e : i32[E] = P.ends\n}",
      "pingpong 128x64 dynamic");
  return list;
}

}  // namespace

TEST_CASE(
    "kernels whose tiles are dealt out or worked on in pairs do not spill; every entry waits before it touches "
    "memory") {
  toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  const std::vector<Kernel> list = kernels();
  std::vector<std::optional<Result<toolchain::CompileOutcome>>> outcomes(list.size());
  std::vector<std::string> sources;
  for (const Kernel& kernel : list)
    sources.push_back(codegen::emit_kernel(kernel.lowered.lowered.graph, kernel.lowered.plan()));
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 2; ++first)
    threads.emplace_back([&, first] {
      for (size_t i = first; i < list.size(); i += 2)
        outcomes[i].emplace(
            nvrtc.compile({"test", sources[i], toolchain::headers_included_by(sources[i]), "sm_90a", {}}));
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < list.size(); ++i) {
    INFO(list[i].name << "\n" << sources[i]);
    if (!*outcomes[i]) FAIL((*outcomes[i]).error().message);
    const toolchain::CompileOutcome& compiled = **outcomes[i];
    CHECK(compiled.spill_bytes == 0);
    CHECK_FALSE(compiled.wgmma_serialized);
    size_t entries = 0;
    CHECK(unordered_entries(compiled.ptx, entries) == std::vector<std::string>{});
    const std::vector<RecipeStep>& steps = list[i].lowered.plan().recipe.steps;
    CHECK(entries == steps.size());
    for (const RecipeStep& step : steps) CHECK(step.waits);
    CHECK(has(compiled.ptx, "atom.global") == (list[i].name.find("dynamic") != std::string::npos));
    CHECK(has(compiled.ptx, ".reqnctapercluster 2") == (list[i].name.find("pairs") != std::string::npos));
    CHECK(has(compiled.ptx, ".multicast::cluster") == (list[i].name.find("pairs") != std::string::npos));
  }
}
