// Chains that cannot be derived say why, at the place where it stands.
#include "tests/chain/chain_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Refused {
  std::string forward;
  std::vector<std::string> chain;
  std::string says, at, hint;  // parts of the message and the hint; the text at the place, empty: the file's start
};

std::string layer(const std::string& name, const std::string& in, const std::string& out, const std::string& body) {
  return "kernel " + name + " {\n  dim K = 64, N = 64, H = 64\n  dyn S\n  in " + in + "\n  out " + out + " = " + body +
         "\n}\n";
}

const std::string first = layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N]", "gemm(x, w)");

const std::vector<Refused> refused = {
    {first, {"fc3"}, "the file has no kernel 'fc3'", "", "did you mean 'fc1'?"},
    {first, {"fc1", "fc1"}, "'fc1' stands twice in the chain", "", ""},
    {layer("fc1", "x : bf16[S, N]", "a : bf16[S, N]", "tanh(x)"), {"fc1"}, "has no gemm", "fc1", "grad"},
    {"fn f(a, b) = gemm(a, b)\n" + layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N]", "f(x, w)"),
     {"fc1"},
     "stands in a function",
     "fc1",
     "in the kernel itself"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[S, N]", "a : f32[N, K]", "gemm(w, x)"),
     {"fc1"},
     "contracts 'S'",
     "gemm(w, x)",
     ""},
    {"kernel fc1 {\n  dim K = 64, N = 64\n  dyn S\n  in x : bf16[S, 2*K]\n  in w : bf16[N, K]\n  p, q = split(x)\n"
     "  out a : bf16[S, N] = gemm(p, w)\n}\n",
     {"fc1"},
     "the gradients of this operand cannot be derived",
     "p",
     "an input"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N] = gemm(x, w)\n  out b : bf16[S, N]",
           "tanh(gemm(x, w)) + gemm(x, w)") +
         layer("fc2", "c : bf16[S, N]\n  in v : bf16[H, N]", "z : bf16[S, H]", "gemm(c, v)"),
     {"fc1", "fc2"},
     "several values as bf16[S, N] that 'fc2' could read as 'c'",
     "c",
     "call the input as the output is called"},
    {first + layer("fc2", "a : bf16[S, K]\n  in v : bf16[H, K]", "z : bf16[S, H]", "gemm(a, v)"),
     {"fc1", "fc2"},
     "'a' is bf16[S, K] here, and 'fc1' stores it as bf16[S, N]",
     "a",
     "by one name"},
    {first + layer("fc2", "c : bf16[S, K]\n  in v : bf16[H, K]", "z : bf16[S, H]", "gemm(c, v)"),
     {"fc1", "fc2"},
     "no value as bf16[S, K]",
     "c",
     "by one name"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : mxfp8[S, N]", "tanh(gemm(x, w))") +
         layer("fc2", "a : bf16[S, N]\n  in v : bf16[H, N]", "z : bf16[S, H]", "gemm(a, v)"),
     {"fc1", "fc2"},
     "'a' is bf16[S, N] here, and 'fc1' stores it as mxfp8[S, N]",
     "a",
     "one type"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : mxfp8[S, N]", "tanh(gemm(x, w))") +
         layer("fc2", "a : mxfp8[S, N]\n  in v : bf16[H, N]", "z : bf16[S, H]", "gemm(a, v)"),
     {"fc1", "fc2"},
     "the weight gradient of 'fc2' contracts the rows of 'a', which is there as mxfp8 only",
     "mxfp8[S, N]",
     "out a_plain : bf16[S, N] = tanh(gemm(x, w))"},
    {layer("fc1", "x : e4m3[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N]", "gemm(x, w)"),
     {"fc1"},
     "which is there as e4m3 only",
     "e4m3[S, K]",
     "multiply a plain tensor"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N] = tanh(gemm(x, w))\n  out b : bf16[S, N]",
           "sigmoid(gemm(x, w))"),
     {"fc1"},
     "'fc1' has several results: a, b",
     "b",
     "one of them"},
    {first + "kernel fc2 {\n  dim N = 32, H = 64\n  dyn S\n  in a : bf16[S, N]\n  in v : bf16[H, N]\n"
             "  out z : bf16[S, H] = gemm(a, v)\n}\n",
     {"fc1", "fc2"},
     "'N' is something else in another kernel of the chain",
     "N",
     "dim N = 64"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N]", "tanh(hadamard(gemm(x, w), N))"),
     {"fc1"},
     "the backward pass of this chain cannot be written",
     "fc1",
     "pointwise"},
    {first + layer("fc2", "a : bf16[S, N]\n  in v : bf16[H, N]", "z : bf16[S, H]", "gemm(a, v)") +
         layer("fc3", "z : bf16[S, H]\n  in u : bf16[N, H]\n  in a : bf16[S, N]", "o : bf16[S, N]", "gemm(z, u) * a"),
     {"fc1", "fc2", "fc3"},
     "'fc3' reads 'a', which 'fc1' stores, besides",
     "a",
     "by hand"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "p : f32[S, N] = gemm(x, w)\n  out a : bf16[S, N]",
           "tanh(gemm(x, w))") +
         layer("fc2", "a : bf16[S, N]\n  in v : bf16[H, N]", "z : bf16[S, H]", "gemm(a, v)") +
         layer("fc3", "z : bf16[S, H]\n  in u : bf16[N, H]\n  in p : f32[S, N]", "o : bf16[S, N]",
               "gemm(z, u) * tanh(p)"),
     {"fc1", "fc2", "fc3"},
     "'fc3' reads 'p', which 'fc1' stores, besides",
     "p",
     "by hand"},
    {layer("fc1", "x : bf16[H, K]\n  in i : i32[S]\n  in j : i32[S]\n  in w : bf16[N, K]\n  in v : bf16[N, K]",
           "a : bf16[S, N]", "tanh(gemm(x[i], w)) * gemm(x[j], v)"),
     {"fc1"},
     "the gemms of 'fc1' read different rows, 'x[i]' and 'x[j]'",
     "gemm(x[j], v)",
     "by one index"},
    {layer("fc1", "x : bf16[S, K]\n  in w : bf16[N, K]", "a : bf16[S, N]", "gemm(x, w)") +
         layer("fc2", "a : bf16[S, N]\n  in v : bf16[K, N]\n  in x : f32[S, K]", "z : bf16[S, K]", "gemm(a, v) + x"),
     {"fc1", "fc2"},
     "'x' is f32[S, K] here, and bf16[S, K] in 'fc1'",
     "x",
     "one type"},
    {"kernel fc1 {\n  dim K = 64\n  oops\n}\n", {"fc1"}, "expected", "", ""},
};

}  // namespace

TEST_CASE("chains that cannot be derived are refused by name, with a place and a hint") {
  for (const Refused& row : refused) {
    Diagnostics diagnostics;
    const Program program = load_forward(row.forward, diagnostics);
    INFO(row.forward);
    CHECK_FALSE(chain::derive_backward(program, row.chain, diagnostics));
    INFO(diagnostics.print());
    REQUIRE(diagnostics.all().size() == 1);
    const Diagnostic& found = diagnostics.all()[0];
    CHECK(found.message.find(row.says) != std::string::npos);
    CHECK(found.hint.find(row.hint) != std::string::npos);
    REQUIRE(found.where.file);
    if (row.says != "expected") CHECK(found.where.text() == row.at);
  }
}
