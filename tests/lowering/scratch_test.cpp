#include "tests/lowering/lowering_support.h"
#include "compiler/codegen/emit_kernel.h"
using namespace epifuse; using namespace epifuse::test;
static void tryit(const char* what, const std::string& text, std::set<std::string> left={}) {
  std::printf("=== %s\n", what);
  try {
    auto r = lower_text(text, "", left);
    std::printf("%s plans %zu\n", r.diagnostics.print().c_str(), r.lowered.plans.size());
    if (!r.lowered.plans.empty()) { auto s = r.lowered.plans[0].recipe.validate(); std::printf("valid %d %s\n", (bool)s, s ? "" : s.error().message.c_str());
      std::printf("%s", lowering::print(r.lowered.graph, r.lowered.plans[0]).c_str()); }
  } catch (const std::exception& e) { std::printf("EXC %s\n", e.what()); }
}
TEST_CASE("x") {
  tryit("plain", ragged_spec("out y : bf16[M, N] = gemm(x, w)"));
  tryit("bias first", halved_spec("in b : bf16[E, 2*I]\nh = b + gemm(x, w)\ngate, up = split(h)\nout y : bf16[M, I] = gate * up"));
  tryit("swapped", halved_spec("in pre : bf16[M, 2*I]\ng, u = split(pre)\nh = gemm(w, x)\nout z : bf16[M, 2*I] = h\nout y : bf16[M, I] = g * u"));
  tryit("select", ragged_spec("in prob : f32[M]\nh = gemm(x, w)\nout z : bf16[M, N] = h\nout y : bf16[M, N] = select(0, h, prob)"));
  tryit("leftout", ragged_spec("in prob : f32[M] = 1\nin b : f32[E, N]\nh = gemm(x, w)\nout z : bf16[M, N] = h\nout y : bf16[M, N] = prob * b"), {"prob"});
  tryit("scale", ragged_spec("h = gemm(x, w)\nout y : mxfp8[M, N] = h\nout y_scale : bf16[M, N] = h"));
  tryit("altile", halved_spec("in pre : bf16[M, 2*I]\ng, u = split(gemm(x,w) + pre, 1)\nout y : bf16[M, I] = g * u"));
  tryit("number", ragged_spec("h = gemm(x, w)\nout z : bf16[M, N] = h\nout y : bf16[M, N] = select(1, 3, h)"));
}
