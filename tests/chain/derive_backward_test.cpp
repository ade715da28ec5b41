// How the derived spec reads: names, types, what is saved, what is carried over.
#include "compiler/parser/format.h"
#include "tests/chain/chain_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

const std::string fc1 = R"(
kernel fc1 {
  dim   E = 8, K = 7168, I = 2048
  group M by E counts i64
  group P = M align 128
  in  x     : bf16[M, K]
  in  w1    : bf16[E, 2*I, K]
  in  prob  : f32[M] = 1
  h         = gemm(x, w1)
  gate, up  = split(h)
  act       = swiglu(gate, up) * prob
  out pre   : bf16[M, 2*I] = h
  out a     : bf16[M, I]   = act
  out at    : mxfp8[I, P]  = act
}
)";

const std::string fc2 = R"(
kernel fc2 {
  dim   E = 8, H = 7168, I = 2048
  group M by E counts i64
  in  a     : bf16[M, I]
  in  w2    : bf16[E, H, I]
  out z     : bf16[M, H] = gemm(a, w2)
}
)";

}  // namespace

TEST_CASE("the backward of a SwiGLU MLP") {
  CHECK(derive(fc1 + fc2, {"fc1", "fc2"}) ==
        R"(# Backward kernels of fc1 -> fc2, derived from forward.epi by `epifuse grad --chain fc1,fc2`.
#
# What feeds what: fc1.a -> fc2.a
#
# The gradient comes in as dz, of fc2.z. None comes in through fc1.pre.
#
# In the order in which they run:
#   fc2_wgrad -> dw2
#   fc2_dgrad -> dh, dprob
#   fc1_wgrad -> dw1
#   fc1_dgrad -> dx
#
# The forward pass has to keep:
#   x, which fc1 reads
#   pre of fc1
#   a, which fc2 reads
use "activations.epi"

# dw2[E, H, I] += sum over M of dz a
kernel fc2_wgrad {
  dim   E = 8, H = 7168, I = 2048
  group M by E counts i64
  in  dz    : bf16[M, H]
  in  a     : bf16[M, I]
  out dw2   : f32[E, H, I] += gemm(dz, a)
}

# da[M, I] = sum over H of dz w2
# dh = da d(act)/d(pre), at the pre that fc1 has stored
# dprob: the same by prob, summed over what it does not have
kernel fc2_dgrad {
  dim   E = 8, I = 2048, H = 7168
  group M by E counts i64
  in  dz    : bf16[M, H]
  in  w2    : bf16[E, H, I]
  in  pre   : bf16[M, 2*I]
  in  prob  : f32[M] = 1
  gate, up  = split(pre)
  act       = swiglu(gate, up) * prob
  dh, dprob = grad(act, gemm(dz, w2), pre, prob)
  out dh    : bf16[M, 2*I] = dh
  out dprob : f32[M]       = sum(dprob)
}

# dw1[E, 2*I, K] += sum over M of dh x
kernel fc1_wgrad {
  dim   E = 8, K = 7168, I = 2048
  group M by E counts i64
  in  dh    : bf16[M, 2*I]
  in  x     : bf16[M, K]
  out dw1   : f32[E, 2*I, K] += gemm(dh, x)
}

# dx[M, K] = sum over 2*I of dh w1
kernel fc1_dgrad {
  dim   E = 8, K = 7168, I = 2048
  group M by E counts i64
  in  dh    : bf16[M, 2*I]
  in  w1    : bf16[E, 2*I, K]
  out dx    : bf16[M, K] = gemm(dh, w1)
}
)");
}

TEST_CASE("one kernel alone has its activation's backward as a pass without gemm") {
  const std::string derived = derive(fc1, {"fc1"});
  CHECK(kernel_of(derived, "fc1_epilogue_backward") == R"(# dh = da d(act)/d(pre), at the pre that fc1 has stored
# dprob: the same by prob, summed over what it does not have
kernel fc1_epilogue_backward {
  dim   E = 8, I = 2048
  group M by E counts i64
  in  da    : bf16[M, I]
  in  pre   : bf16[M, 2*I]
  in  prob  : f32[M] = 1
  gate, up  = split(pre)
  act       = swiglu(gate, up) * prob
  dh, dprob = grad(act, da, pre, prob)
  out dh    : bf16[M, 2*I] = dh
  out dprob : f32[M]       = sum(dprob)
}
)");
}

TEST_CASE("what was not saved is: the forward kernel comes first, with one more output") {
  const std::string derived = derive(R"(
fn twice(t) = t + t
kernel fc1 {
  dim   K = 64, I = 32
  dyn   S
  param c = 3
  in  x     : f16[S, K]
  in  w     : bf16[2*I, K]
  gate, up  = split(gemm(x, w))
  out a     : bf16[S, I] = twice(gate) * tanh(up / c)
}
)",
                                     {"fc1"});
  CHECK(derived.find("fn twice(t) = t + t\n") != std::string::npos);
  CHECK(derived.find("# fc1 did not store what is needed") != std::string::npos);
  CHECK(kernel_of(derived, "fc1") == R"(# The forward kernel, which now stores pre: the backward pass reads it.
kernel fc1 {
  dim   K = 64, I = 32
  dyn   S
  param c = 3
  in  x     : f16[S, K]
  in  w     : bf16[2*I, K]
  h         = gemm(x, w)
  gate, up  = split(h)
  out pre   : f16[S, 2*I] = h
  out a     : bf16[S, I]  = twice(gate) * tanh(up / c)
}
)");
  CHECK(kernel_of(derived, "fc1_epilogue_backward").find("in  pre   : f16[S, 2*I]\n") != std::string::npos);
  CHECK(kernel_of(derived, "fc1_dgrad").find("out dx    : f16[S, K] = gemm(dh, w)\n") != std::string::npos);
}

TEST_CASE("a bias and its probability are a pass of their own at the end of the chain") {
  const std::string derived = derive(fc1 + R"(
kernel fc2 {
  dim   E = 8, H = 7168, I = 2048
  group M by E counts i64
  in  a     : bf16[M, I]
  in  w2    : bf16[E, H, I]
  in  b2    : bf16[E, H]
  in  prob  : f32[M]
  in  r     : bf16[M, H]
  out z     : bf16[M, H] = gemm(a, w2) + prob * b2 + r
}
)",
                                     {"fc1", "fc2"});
  CHECK(kernel_of(derived, "fc2_epilogue_backward") ==
        R"(# z is linear in the product: its gradient is dz times what scales it.
# The gradient of r is dz itself.
# db2, dprob: the same by b2, prob, summed over what they do not have
kernel fc2_epilogue_backward {
  dim   E = 8, H = 7168
  group M by E counts i64
  in  dz     : bf16[M, H]
  in  b2     : bf16[E, H]
  in  prob   : f32[M]
  db2, dprob = grad(prob * b2, dz, b2, prob)
  out db2    : f32[E, H] = sum(db2)
  out dprob  : f32[M]    = sum(dprob)
}
)");
  // The same probability stands in fc1: its gradient is one sum.
  CHECK(kernel_of(derived, "fc2_dgrad").find("out dprob : f32[M]      += sum(dprob)\n") != std::string::npos);
}

TEST_CASE("names of different tensors get their kernel's name where both stand") {
  const std::string derived = derive(R"(
kernel a {
  dim   N = 16, K = 16, H = 8
  dyn   S
  in  x     : bf16[S, K]
  in  w     : bf16[N, K]
  in  b     : bf16[N]
  h         = gemm(x, w) + b
  out h     : bf16[S, N] = h
  out y     : bf16[S, N] = silu(h) * b
}
kernel c {
  dim   N = 16, H = 8
  dyn   S
  in  y     : bf16[S, N]
  in  w     : bf16[H, N]
  in  b     : bf16[H]
  h         = gemm(y, w) + b
  out pre   : bf16[S, H] = h
  out dx    : bf16[S, H] = silu(h)
}
)",
                                     {"a", "c"});
  INFO(derived);
  // b of `a` lies before and behind h, so h is of no use: the product itself is saved.
  const std::string saving = kernel_of(derived, "a"), dgrad = kernel_of(derived, "c_dgrad");
  CHECK(saving.find("h_a") != std::string::npos);
  CHECK(dgrad.find("gemm(dh_c, w_c)") != std::string::npos);
  CHECK(dgrad.find("out db_a") != std::string::npos);
  CHECK(kernel_of(derived, "c_epilogue_backward").find("out db_c") != std::string::npos);
  CHECK(kernel_of(derived, "a_wgrad").find("out dw_a") != std::string::npos);
  CHECK(kernel_of(derived, "c_wgrad").find("out dw_c") != std::string::npos);
}

TEST_CASE("gate and up as two tensors keep their own gradients") {
  const std::string derived = derive(R"(
kernel fc1 {
  dim   E = 8, K = 7168, I = 2048
  group M by E
  in  x     : bf16[M, K]
  in  wg    : bf16[E][I, K]
  in  wu    : bf16[E][I, K]
  gate      = gemm(x, wg)
  up        = gemm(x, wu)
  out g     : bf16[M, I] = gate
  out u     : bf16[M, I] = up
  out a     : bf16[M, I] = silu(gate) * up
}
)",
                                     {"fc1"});
  INFO(derived);
  CHECK(derived.find("dgate, dup = grad(a, da, g, u)\n") != std::string::npos);
  CHECK(derived.find("= gemm(dgate, wg) + gemm(dup, wu)\n") != std::string::npos);
  CHECK(derived.find("out dwg   : f32[E][I, K] += gemm(dgate, x)\n") != std::string::npos);
  CHECK(derived.find("out dwu   : f32[E][I, K] += gemm(dup, x)\n") != std::string::npos);
}

TEST_CASE("where fc2 reads a quantised copy, the weight gradient reads the plain one") {
  const std::string quantised = R"(
kernel fc2 {
  dim   E = 8, H = 7168, I = 2048
  group M by E counts i64
  in  aq    : mxfp8[M, I]
  in  w2    : mxfp4[E, H, I]
  out z     : bf16[M, H] = gemm(aq, w2)
}
)";
  std::string forward = fc1;
  forward.insert(forward.find("  out at"), "  out aq    : mxfp8[M, I]  = act\n");
  const std::string derived = derive(forward + quantised, {"fc1", "fc2"});
  CHECK(kernel_of(derived, "fc2_wgrad").find("in  a     : bf16[M, I]\n") != std::string::npos);
  CHECK(kernel_of(derived, "fc2_dgrad").find("in  w2    : mxfp4[E, H, I]\n") != std::string::npos);
}

TEST_CASE("of several plain copies the weight gradient reads one that a gemm takes") {
  std::string forward = fc1;
  forward.insert(forward.find("  out a "), "  out aq    : mxfp8[M, I]  = act\n  out af    : f32[M, I]    = act\n");
  const std::string derived = derive(forward + R"(
kernel fc2 {
  dim   E = 8, H = 7168, I = 2048
  group M by E counts i64
  in  aq    : mxfp8[M, I]
  in  w2    : bf16[E, H, I]
  out z     : f32[M, H] = gemm(aq, w2)
}
)",
                                     {"fc1", "fc2"});
  CHECK(kernel_of(derived, "fc2_wgrad").find("+= gemm(dz, a)\n") != std::string::npos);
  CHECK(kernel_of(derived, "fc2_wgrad").find("in  dz    : bf16[M, H]\n") != std::string::npos);
}

TEST_CASE("gradients that no gemm reads, and operands that are f32, stay as wide as they were") {
  std::string f32 = fc1;
  for (const std::string type : {"x     : bf16", "w1    : bf16", "pre   : bf16", "a     : bf16"})
    f32.replace(f32.find(type) + type.size() - 4, 4, "f32");
  const std::string derived = derive(f32, {"fc1"});
  CHECK(kernel_of(derived, "fc1_wgrad").find("in  dh    : f32[M, 2*I]\n") != std::string::npos);
  std::string wide = fc1;
  wide.replace(wide.find("out a     : bf16"), 16, "out a     : f32");
  CHECK(kernel_of(derive(wide, {"fc1"}), "fc1_epilogue_backward").find("in  da    : f32[M, I]\n") != std::string::npos);
}

TEST_CASE("the head says which output each kernel reads, also where it has another name there") {
  std::string renamed = fc2;
  renamed.replace(renamed.find("in  a "), 6, "in  act ");
  renamed.replace(renamed.find("gemm(a,"), 7, "gemm(act,");
  const std::string third =
      "kernel fc3 {\n dim E = 8, H = 7168, J = 64\n group M by E counts i64\n in z : bf16[M, H]\n"
      " in w3 : bf16[E, J, H]\n out o : bf16[M, J] = gemm(z, w3)\n}\n";
  CHECK(derive(fc1 + renamed + third, {"fc1", "fc2", "fc3"})
            .find("# What feeds what: fc1.a -> fc2.act, fc2.z -> fc3.z\n") != std::string::npos);
  CHECK(derive(fc1, {"fc1"}).find("What feeds what") == std::string::npos);
}

TEST_CASE("what the chain starts from gets what the epilogues give it, in one sum") {
  const std::string layers = R"(
kernel fc1 {
  dim   K = 64, I = 32
  dyn   S
  in  x     : bf16[S, K]
  in  w1    : bf16[I, K]
  out a     : bf16[S, I] = gemm(x, w1)
}
kernel fc2 {
  dim   K = 64, I = 32
  dyn   S
  in  a     : bf16[S, I]
  in  w2    : bf16[K, I]
  in  x     : bf16[S, K]
  out z     : bf16[S, K] = gemm(a, w2))";
  const std::string residual = kernel_of(derive(layers + " + x\n}\n", {"fc1", "fc2"}), "fc1_dgrad");
  CHECK(residual.find("out dx    : bf16[S, K] = gemm(da, w1) + dz\n") != std::string::npos);
  const std::string scaled = derive(layers + " + 2 * x\n}\n", {"fc1", "fc2"});
  CHECK(kernel_of(scaled, "fc2_epilogue_backward").find("out dx_fc2 : bf16[S, K] = dx_fc2\n") != std::string::npos);
  CHECK(kernel_of(scaled, "fc1_dgrad").find(" = gemm(da, w1) + dx_fc2\n") != std::string::npos);
}

TEST_CASE("a scaled value that is saved and the product behind it have gradients of their own names") {
  const std::string derived = derive(R"(
kernel fc1 {
  dim   K = 64, I = 32
  dyn   S
  in  x     : bf16[S, K]
  in  w     : bf16[I, K]
  in  dpre  : f32[S]
  pre       = gemm(x, w) * 2
  out pre   : bf16[S, I] = pre
  out a     : bf16[S, I] = tanh(pre) * dpre
}
)",
                                     {"fc1"});
  const std::string epilogue = kernel_of(derived, "fc1_epilogue_backward");
  CHECK(epilogue.find("dpre_fc1, ddpre = grad(a, da, pre, dpre)\n") != std::string::npos);
  CHECK(epilogue.find("= dpre_fc1 * 2\n") != std::string::npos);
}

TEST_CASE("the head says through which outputs no gradient comes in") {
  std::string several = fc2;
  several.insert(several.find("  out z"),
                 "  out pre2  : bf16[M, H] = gemm(a, w2)\n  out m     : f32[M] = sum(gemm(a, w2))\n");
  several.replace(several.find("= gemm(a, w2)\n}"), 15, "= tanh(gemm(a, w2))\n}");
  CHECK(derive(several, {"fc2"})
            .find("# The gradient comes in as dz, of fc2.z. None comes in through fc2.pre2, fc2.m.\n") !=
        std::string::npos);
  CHECK(derive(fc2, {"fc2"}).find("# The gradient comes in as dz, of fc2.z.\n") != std::string::npos);
}

TEST_CASE("the head tells quantised outputs from the plain ones that stand in for them") {
  std::string first = fc1, second = fc2;
  first.replace(first.find("out a     : bf16[M, I]   = act"), 30,
                "out a     : mxfp8[M, I]  = act\n  out plain : bf16[M, I]   = act");
  second.replace(second.find("in  a     : bf16"), 16, "in  a     : mxfp8");
  second.insert(second.find("  out z"), "  out zq    : mxfp8[M, H] = gemm(a, w2)\n");
  const std::string derived = derive(first + second, {"fc1", "fc2"});
  CHECK(derived.find("# What feeds what: fc1.a -> fc2.a\n") != std::string::npos);
  CHECK(derived.find("# The gradient comes in as dz, of fc2.z. None comes in through fc1.pre.\n") != std::string::npos);
  CHECK(derived.find("#   plain of fc1: the values that fc2 reads as a\n") != std::string::npos);
  CHECK(kernel_of(derived, "fc2_wgrad").find("in  plain : bf16[M, I]\n") != std::string::npos);
}

TEST_CASE("where the text will lie elsewhere, it still finds what is beside the spec, and the library") {
  MemorySource source(std::map<std::string, std::string>{{"mlp/own.epi", "fn bent(t) = t * tanh(t)\n"}});
  Diagnostics diagnostics;
  const Program program =
      load_program("mlp/forward.epi", "use \"activations.epi\"\nuse \"own.epi\"\n" + fc2, source, diagnostics);
  const std::optional<std::string> derived = chain::derive_backward(program, {"fc2"}, diagnostics, "../mlp");
  INFO(diagnostics.print());
  REQUIRE(derived);
  CHECK(derived->find("use \"activations.epi\"\nuse \"../mlp/own.epi\"\n") != std::string::npos);
}

TEST_CASE("gathered rows: the weight gradient gathers them again") {
  const std::string derived = derive(R"(
kernel fc1 {
  dim   E = 8, K = 7168, I = 2048
  dyn   T
  group M by E
  in  x     : bf16[T, K]
  in  idx   : i32[M]
  in  w     : bf16[E, I, K]
  out a     : bf16[M, I] = gemm(x[idx], w)
}
)",
                                     {"fc1"});
  CHECK(kernel_of(derived, "fc1_wgrad").find("+= gemm(da, x[idx])\n") != std::string::npos);
  CHECK(kernel_of(derived, "fc1_dgrad").find("out dx    : bf16[M, K] = gemm(da, w)\n") != std::string::npos);
}

TEST_CASE("what is derived is formatted") {
  for (const std::vector<std::string>& chain : {std::vector<std::string>{"fc1"}, {"fc2"}, {"fc1", "fc2"}}) {
    const std::string derived = derive(fc1 + fc2, chain);
    Diagnostics diagnostics;
    CHECK(format_spec(std::make_shared<const SourceFile>(SourceFile{"d", derived}), diagnostics) == derived);
  }
}
