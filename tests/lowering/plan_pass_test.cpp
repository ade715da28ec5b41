// Which kernels without gemm become one pass over tiles, and what of: rows, columns, groups. That they are right is
// tests/gpu/pointwise_test.cpp.
#include "compiler/lowering/plan_pass.h"

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::Family;
using lowering::GemmForm;

namespace {

LoweredText lower_body(const std::string& body) { return lower_text("kernel test {\n" + body + "\n}\n"); }

bool is_pass(const std::string& body) { return lower_body(body).plan().schedule.family == Family::pass; }

}  // namespace

TEST_CASE("ragged rows, dense rows and batches are passes, with the general launches behind them") {
  const LoweredText ragged = lower_body(
      "dim E = 2, N = 512\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, N]\nout q : mxfp8[M, N] = x\n"
      "out t : mxfp8[N, P] = x");
  const lowering::KernelPlan& plan = ragged.plan();
  CHECK(plan.schedule.family == Family::pass);
  CHECK(plan.gemm.form == GemmForm::ragged_rows);
  CHECK(plan.places.size() == 2);
  CHECK(plan.part_tile() == 128);
  CHECK(plan.schedule.band == 4);
  REQUIRE(plan.recipe.steps.size() == 1);
  CHECK(plan.recipe.maps.empty());
  CHECK(ragged.lowered.plans.size() == 2);
  CHECK(ragged.lowered.plans[1].schedule.family == Family::pointwise);

  const LoweredText dense = lower_body("dim N = 64\ndyn S\nin x : bf16[S, N]\nout y : bf16[S, N] = 2 * x");
  CHECK(dense.plan().gemm.form == GemmForm::dense);
  CHECK(dense.plan().part_tile() == 64);
  const LoweredText batched = lower_body("dim E = 3, N = 64, K = 128\nin w : bf16[E, N, K]\nout t : bf16[E, K, N] = w");
  CHECK(batched.plan().gemm.form == GemmForm::batched);
}

TEST_CASE("the narrow side of a split counts the columns, and reductions are finished by launches of their own") {
  const LoweredText result = lower_body(
      "dim E = 2, I = 256\ngroup M by E\nin h : bf16[M, 2*I]\nin prob : f32[M]\ng, u = split(h)\n"
      "v = g * sigmoid(g) * u\nout y : bf16[M, I] = v * prob\nout s : f32[M] = sum(v)\nout b : f32[E, I] = sum(v)");
  const lowering::KernelPlan& plan = result.plan();
  REQUIRE(plan.schedule.family == Family::pass);
  CHECK(plan.gemm.part_columns == 256);
  CHECK(plan.recipe.steps.size() == 3);
  CHECK(
      is_pass("dim E = 2, I = 256\ngroup M by E\nin d : bf16[M, I]\nin h : bf16[M, 2*I]\ng, u = split(h, 1)\n"
              "dh = grad(g * u, d, h)\nout dh : mxfp8[M, 2*I] = dh"));
}

TEST_CASE("rotations of tokens and of columns are passes") {
  CHECK(
      is_pass("dim E = 2, N = 512\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, N]\nout q : mxfp8[M, N] = x\n"
              "out t : mxfp8[N, P] = hadamard(hadamard(x, M, 0xD7E8), N)"));
  CHECK(!is_pass("dim N = 64\ndyn B, S\nin x : bf16[B, S, N]\nout y : bf16[B, S, N] = hadamard(x, B)"));
}

TEST_CASE("what tiles do not have is left to the general launches") {
  CHECK(!is_pass("dim N = 63\ndyn S\nin x : bf16[S, N]\nout y : bf16[S, N] = x"));   // columns in eights
  CHECK(!is_pass("dim N = 64\ndyn S\nin x : bf16[S, N]\nout y : f32[S] = sum(x)"));  // nothing over rows
  CHECK(
      !is_pass("dim N = 64\ndyn S\nin s : f32[S]\nin x : bf16[S, N]\nout y : bf16[S, N] = x\nout r : f32[S] = 2 * s"));
  CHECK(!is_pass("dim N = 64\ndyn S, T\nin x : bf16[T, N]\nin i : i32[S]\nout y : bf16[S, N] = x[i]"));
  CHECK(!is_pass("dim I = 64, J = 32\ndyn S\nin x : f32[S, J, I]\nout y : f32[S, I] = sum(x)"));
  CHECK(!is_pass("dim I = 64\ndyn S, N\nin x : f32[S, N]\nout y : f32[S, N] = x"));  // columns at launch
}
