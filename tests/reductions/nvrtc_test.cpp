// What NVRTC makes of kernels that reduce and accumulate: they compile, and do not spill where the same kernel without
// reductions does not.
#include <cstdio>
#include <fmt/format.h>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

toolchain::NvrtcToolchain* nvrtc() {
  static toolchain::NvrtcToolchain toolchain(real_file_system(), *read_settings());
  static const bool found = [] {
    const auto location = toolchain.location();
    if (!location) std::printf("skipped: %s\n", location.error().message.c_str());
    return static_cast<bool>(location);
  }();
  return found ? &toolchain : nullptr;
}

void compile(const char* name, const std::string& spec, std::string_view schedule, size_t entries) {
  if (!nvrtc()) return;
  INFO(name);
  const LoweredText result = lower_text(spec);
  const std::string source = codegen::emit_kernel(result.lowered.graph, result.plan(schedule));
  INFO(source);
  const auto outcome = nvrtc()->compile({"test", source, toolchain::headers_included_by(source), "sm_90a", {}});
  if (!outcome) FAIL(outcome.error().message);
  std::printf("%-36s %3d registers %4d spill bytes %6.0f ms\n", name, outcome->registers, outcome->spill_bytes,
              outcome->milliseconds);
  INFO(outcome->log);
  CHECK(outcome->spill_bytes == 0);
  CHECK(!outcome->wgmma_serialized);
  CHECK(outcome->entries.size() == entries);
}

}  // namespace

TEST_CASE("every reduction of a value over ragged rows, both halves of it and one") {
  compile("reductions of halves",
          halved_spec("h = gemm(x, w)\nf, s = split(h)\nout r : f32[M] += sum(h)\nout ra : bf16[P] = amax(f * s)\n"
                      "out c : f32[E, 2*I] = sum(h)\nout ca : f16[I] = amax(f)\nout t : f32[E] = amax(h)\n"
                      "out ts : f32 += sum(f * s)",
                      "E = 3, K = 64, I = 40", "group M by E\n group P = M align 128"),
          "pingpong 128x64", 7);
}

TEST_CASE("a sum of rows alone, of an aligned place") {
  compile(
      "aligned rows",
      ragged_spec("out r : f32[P] = sum(gemm(x, w))", "E = 3, K = 64, N = 64", "group M by E\n group P = M align 128"),
      "pingpong 128x64", 2);
}

TEST_CASE("halves that alternate, with buffers of their own") {
  compile("alternating halves",
          halved_spec("h = gemm(x, w)\nf, s = split(h, 1)\nout c : f32[E][2*I] = sum(h)\nout r : f32[M] = sum(h)\n"
                      "out y : bf16[M, 2*I] += h\nout z : f32[I, M] += f * s"),
          "pingpong 128x128", 3);
}

TEST_CASE("plain outputs that accumulate, in wide tiles") {
  compile("+= of f32", ragged_spec("out y : f32[M, N] += gemm(x, w)", "E = 3, K = 64, N = 384"), "pingpong 128x192", 1);
}

TEST_CASE("a backward pass: both directions of MXFP8 beside both sums") {
  compile("dprob and dbias",
          ragged_spec("in g : bf16[M, N]\nin p : f32[M]\nd = gemm(x, w)\na = g * sigmoid(g)\nv = d * a * p\n"
                      "out dprob : f32[M] = sum(d * a)\nout dbias : f32[E, N] = sum(v)\nout y : mxfp8[M, N] = v\n"
                      "out yt : mxfp8[N, P] = v",
                      "E = 3, K = 64, N = 256", "group M by E\n group P = M align 128"),
          "pingpong 128x128", 3);
}

TEST_CASE("a weight gradient that reduces its results") {
  compile("weight gradient",
          "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, K]\n in dy : bf16[M, N]\n"
          " dw = gemm(dy, x)\n out a : f32[E, N, K] += dw\n out top : f32[E] = amax(dw)\n"
          " out c : f32[E, K] += sum(dw)\n out r : f32[E, N] = sum(dw)\n}\n",
          "", 4);
}
