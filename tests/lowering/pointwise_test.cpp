// Plans of kernels without gemm: how outputs are walked, where reductions are cut, what the recipe asks of the caller,
// and what is refused. That the kernels are right is tests/codegen/pointwise_test.cpp.
#include "compiler/lowering/pointwise.h"

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::PointwiseKind;

namespace {

std::string spec(const std::string& body) { return "kernel test {\n" + body + "\n}\n"; }

LoweredText lower_body(const std::string& body) { return lower_text(spec(body)); }

std::string refusal(const std::string& body) {
  const LoweredText result = lower_body(body);
  CHECK(result.lowered.plans.empty());
  return result.diagnostics.print();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

const ParameterField* field(const RecipeStep& step, std::string_view name) {
  for (const ParameterField& f : step.fields)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

TEST_CASE("elements are stored eight at a time where all of a dimension's runs are whole") {
  const auto width = [](const std::string& body) { return lower_body(body).plan("pointwise").pointwise.at(0).width; };
  CHECK(width("dim N = 64\ndyn S\nin x : bf16[S, N]\nout y : bf16[S, N] = x") == 8);
  CHECK(width("dim N = 63\ndyn S\nin x : bf16[S, N]\nout y : bf16[S, N] = x") == 1);
  CHECK(width("dim N = 64\ndyn S\nin x : bf16[S, N]\nout y : bf16[N, S] = x") == 1);
  const std::string groups = "dim E = 2, N = 64\ngroup M by E\ngroup P = M align 16\nin x : bf16[M, N]\n";
  CHECK(width(groups + "out y : bf16[N, P] = x") == 8);
  CHECK(width(groups + "out y : bf16[N, M] = x") == 1);
}

TEST_CASE("the recipe asks for the alignment of its accesses, and takes strides") {
  const LoweredText result = lower_body(
      "dim N = 64\ndyn S\nin x : bf16[S, N]\nin q : e4m3[S, N]\nin r : f32[S]\nin z : f32[S, N/2]\n"
      "a, b = split(x, 1)\nout y : f32[S, N] = x * q * r\nout t : bf16[N/2, S] = a * b + z");
  const LaunchRecipe& recipe = result.plan("pointwise").recipe;
  CHECK(recipe.find_tensor("x")->alignment == 16);
  CHECK(recipe.find_tensor("q")->alignment == 8);
  CHECK(recipe.find_tensor("r")->alignment == 4);
  CHECK(recipe.find_tensor("z")->alignment == 4);
  CHECK(recipe.find_tensor("y")->alignment == 16);
  CHECK(recipe.find_tensor("t")->alignment == 2);
  for (const RecipeTensor& tensor : recipe.tensors) CHECK(tensor.strided);
  REQUIRE(recipe.steps.size() == 2);
  CHECK(recipe.steps[0].entry != recipe.steps[1].entry);
  REQUIRE(field(recipe.steps[0], "stride0_in_x"));
  CHECK(field(recipe.steps[0], "stride0_in_x")->value.text() == "x.stride0");
  CHECK(field(recipe.steps[0], "items")->value.text() == "S * ceil_div(N, 8)");
}

TEST_CASE("few terms are added by a thread, rows by a warp, and what has no bound in partials") {
  const auto plan = [](const std::string& out) {
    return lower_body("dim E = 4, J = 8, N = 4096\ngroup M by E\ndyn S\nin x : bf16[M, N]\nin w : f32[S, J, N]\n" + out)
        .plan("pointwise");
  };
  const auto row = plan("out r : f32[M] = sum(x)");
  REQUIRE(row.pointwise.size() == 1);
  CHECK(row.pointwise[0].warps);
  CHECK(row.recipe.workspace_bytes.constant() == 0);

  const auto folded = plan("out r : f32[S, N] = sum(w)");
  REQUIRE(folded.pointwise.size() == 1);
  CHECK(!folded.pointwise[0].warps);
  CHECK(folded.pointwise[0].width == 8);

  const auto columns = plan("out r : f32[E, N] = sum(x)\nout s : f32[N] = amax(x)");
  REQUIRE(columns.pointwise.size() == 4);
  CHECK(columns.pointwise[0].kind == PointwiseKind::reduce);
  CHECK(columns.pointwise[1].kind == PointwiseKind::finish);
  CHECK(columns.pointwise[1].group_axis == 0);
  CHECK(columns.pointwise[3].group_axis == -1);
  // Each group begins a partial of 64 rows; the second output's partials lie behind the first's.
  const auto value = [](const IntExpr& e) {
    return *e.evaluate([](std::string_view name) -> std::optional<int64_t> {
      return name == "E" ? 4 : name == "N" ? 4096 : name == "M" ? 1000 : 1;
    });
  };
  constexpr int64_t bytes = (1000 + 3 * 63 + 63) / 64 * 4096 * 4;
  CHECK(value(columns.workspace[0].bytes) == bytes);
  CHECK(value(columns.workspace[1].offset) == bytes);
  CHECK(value(columns.recipe.workspace_bytes) == 2 * bytes);
}

TEST_CASE("what is not lowered is refused by name and place") {
  CHECK(contains(refusal("dim E = 2, N = 64\ngroup M by E\nin x : mxfp8[M, N]\nout y : bf16[M, N] = x"),
                 "an input of type mxfp8"));
  const std::string all = refusal(
      "dim E = 2, N = 64\ngroup M by E\nin a : mxfp8[M, N]\nin b : mxfp4[M, N]\nout y : bf16[M, N] = a\n"
      "out z : bf16[M, N] = b");
  CHECK(contains(all, "an input of type mxfp8"));
  CHECK(contains(all, "an input of type mxfp4"));  // all of a kernel's at once
}

TEST_CASE("4-bit codes share bytes, so rows are of even length") {
  const LoweredText result = lower_body(
      "dyn S, T\nin x : bf16[S, T]\nin y : bf16[T, S/3]\nout q : mxfp4[S, T] = x\nout r : mxfp4[T, S/3] = y");
  for (const RecipeSymbol& symbol : result.plan("pointwise").recipe.symbols)
    CHECK(symbol.multiple == (symbol.name == "T" ? 2 : 6));
  const LoweredText fixed = lower_body("dim N = 6\ndyn S\nin x : bf16[S, N]\nout q : mxfp4[S, N] = x");
  CHECK(fixed.plan("pointwise").pointwise.at(0).width == 2);
  CHECK(fixed.plan("pointwise").recipe.find_tensor("q")->alignment == 1);
  const LoweredText eights = lower_body("dim N = 64\ndyn S\nin x : bf16[S, N]\nout q : mxfp4[S, N] = x");
  CHECK(eights.plan("pointwise").pointwise.at(0).width == 8);
  CHECK(eights.plan("pointwise").recipe.find_tensor("q")->alignment == 4);
}

TEST_CASE("long blocks are a warp's where it reads them as they lie, blocks of two dimensions always") {
  const auto launch = [](const std::string& out) {
    const LoweredText lowered = lower_body("dim N = 256\ndyn S\nin x : bf16[S, N]\nout q : " + out + " = x");
    return lowered.plan("pointwise").pointwise.back();
  };
  const auto row = launch("fp8_1x128[S, N]");
  CHECK(row.warps);
  CHECK((row.block_rows == 1 && row.block_columns == 128));
  const auto turned = launch("fp8_1x128[N, S]");
  CHECK_FALSE(turned.warps);
  CHECK(turned.order == std::vector<int>{0, 1});  // neighbouring threads take neighbours in x
  const auto square = launch("fp8_128x128[N, S]");
  CHECK(square.warps);
  CHECK(square.rows_first);
  CHECK((square.axes[0].step == 128 && square.axes[1].step == 128));
  // Across the blocks eight neighbours are stored at once.
  const auto across = launch("mxfp8(along = S)[S, N]");
  CHECK_FALSE(across.warps);
  CHECK((across.block_rows == 32 && across.block_columns == 1 && across.axes[1].step == 8));
}

TEST_CASE("tiles of scales are set to zero before the blocks fill them") {
  const LoweredText result = lower_body(
      "dim E = 2, N = 64\ngroup M by E\ngroup P = M align 32\nin x : bf16[M, N]\n"
      "out y : mxfp8(layout = blocked_128x4)[N, P] = x\nout z : mxfp8[N, P] = x");
  const lowering::KernelPlan& plan = result.plan("pointwise");
  REQUIRE(plan.pointwise.size() == 3);
  CHECK(plan.pointwise[0].kind == PointwiseKind::clear);
  CHECK(plan.pointwise[0].kept == 0);
  CHECK(plan.pointwise[0].tiled_axis == 1);
  CHECK(plan.pointwise[1].kind == PointwiseKind::blocks);
  CHECK(plan.pointwise[1].tables.at(0).places.back().unit == 128);
  CHECK(plan.recipe.find_tensor("y.scale")->alignment == 16);
  CHECK(plan.recipe.find_tensor("z.scale")->alignment == 1);
  // … but where blocks fill all of them.
  const LoweredText whole = lower_body(
      "dim E = 2, N = 128\ngroup M by E\ngroup P = M align 256\nin x : bf16[M, N]\n"
      "out y : mxfp8(layout = blocked_128x4)[N, P] = x\nout z : mxfp8(layout = blocked_128x4)[P, N] = x");
  CHECK(whole.plan("pointwise").pointwise.size() == 2);
}

TEST_CASE("a rotation is a launch before those that read it") {
  const LoweredText result = lower_body(
      "dim E = 2, N = 40\ngroup M by E\nin x : bf16[M, N]\na = hadamard(x, N)\nout y : f32[M, N] = hadamard(a + 1, M, "
      "3)\n"
      "out z : bf16[M, N] = 4 * a");
  const lowering::KernelPlan& plan = result.plan("pointwise");
  REQUIRE(plan.pointwise.size() == 4);
  CHECK(plan.pointwise[0].kind == PointwiseKind::rotate);
  CHECK(plan.pointwise[0].width == 8);
  CHECK(plan.pointwise[1].kind == PointwiseKind::rotate);
  CHECK(plan.pointwise[1].split.grouped == result.lowered.graph.nodes.at(0).shape.at(0).dim);
  CHECK(plan.workspace.size() == 2);
  REQUIRE(field(plan.recipe.steps[1], "out"));
  CHECK(field(plan.recipe.steps[1], "out")->tensor == workspace_name);
  CHECK(plan.pointwise[2].kind == PointwiseKind::elements);
}

TEST_CASE("a plan prints its launches") {
  const LoweredText result = lower_body(
      "dim E = 2, N = 64\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, N]\nout q : mxfp8[N, P] = x * 2\n"
      "out s : f32[E, N] = sum(x)");
  const std::string text = lowering::print(result.lowered.graph, result.plan("pointwise"));
  for (const char* part : {"pointwise blocks q mxfp8, a thread for each item of 32, 8 at once", "axis 1 P align 128",
                           "groups 2 of M + 0: M align 1 + 2 P align 128 + 4", "partials of 64 along M",
                           "pointwise finish s f32", "workspace 0 + ", "launch kernel_test_2"}) {
    INFO(part << "\n" << text);
    CHECK(contains(text, part));
  }
}

TEST_CASE("a chain may be longer than the stack is deep") {
  std::string steps = "v0 = x\n";
  for (int i = 1; i <= 30000; ++i) steps += fmt::format("v{} = v{} * s\n", i, i - 1);
  const LoweredText pointwise =
      lower_body("dim N = 64\ndyn S\nparam s\nin x : bf16[S, N]\n" + steps + "out y : bf16[S, N] = v30000");
  REQUIRE(pointwise.diagnostics.all().empty());
  CHECK(pointwise.plan("pointwise").pointwise.at(0).value.nodes.size() == 30002);
  const LoweredText fused = lower_body(
      "dim K = 64, N = 64\ndyn S\nparam s\nin a : bf16[S, K]\nin w : bf16[N, K]\n"
      "x = gemm(a, w)\n" +
      steps + "out y : bf16[S, N] = v30000");
  REQUIRE(fused.diagnostics.all().empty());
  CHECK(fused.plan().epilogue.nodes.size() == 30002);
}
