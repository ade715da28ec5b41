// What plans say of groups: where those in slots start, what their sizes are checked against, and the launches that
// store where groups end.
#include <fmt/format.h>

#include "compiler/lowering/plan_groups.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

using Numbers = std::map<std::string, int64_t>;

const Numbers sizes = {{"E", 3}, {"K", 64}, {"N", 128}, {"C", 256}, {"M", 768}, {"sm_count", 132}};

Result<int64_t> evaluate(const IntExpr& e, const Numbers& numbers) {
  return e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto at = numbers.find(std::string(name));
    return at == numbers.end() ? std::nullopt : std::optional(at->second);
  });
}

int64_t number(const IntExpr& e, const Numbers& numbers = sizes) {
  INFO(e.text());
  const Result<int64_t> value = evaluate(e, numbers);
  if (!value) FAIL(value.error().message);
  return *value;
}

const RecipeStep& step(const KernelPlan& plan, std::string_view entry) {
  for (const RecipeStep& s : plan.recipe.steps)
    if (s.entry == entry) return s;
  FAIL("no launch " << entry);
  return plan.recipe.steps[0];
}

const ParameterField* find_field(const RecipeStep& step, std::string_view name) {
  for (const ParameterField& f : step.fields)
    if (f.name == name) return &f;
  return nullptr;
}

// Every plan's recipe is sound and survives its text form.
void check_recipes(const LoweredText& result) {
  result.plan();
  for (const KernelPlan& plan : result.lowered.plans) {
    INFO(lowering::schedule_name(plan.schedule));
    const Status sound = plan.recipe.validate();
    if (!sound) FAIL(sound.error().message);
    const Result<LaunchRecipe> read = LaunchRecipe::from_json(plan.recipe.to_json());
    if (!read) FAIL(read.error().message);
    CHECK(read->to_json() == plan.recipe.to_json());
  }
}

std::string symbols_of(const KernelPlan& plan) {
  std::string text;
  for (const RecipeSymbol& symbol : plan.recipe.symbols)
    text += (text.empty() ? "" : " ") + symbol.name + (symbol.kind == SymbolKind::launch ? "*" : "");
  return text;
}

const std::string stored_gemm = "out y : bf16[M, N] = gemm(x, w)";

}  // namespace

TEST_CASE("the rows of a slot are a number, a dim, or a dyn that some buffer has") {
  struct Case {
    std::string dims, group, more;
    int64_t slot;
  };
  const std::vector<Case> cases = {
      {"E = 3, K = 64, N = 128", "group M by E counts slot 512", "", 512},
      {"E = 3, K = 64, N = 128, C = 256", "group M by E slot C", "", 256},
      {"E = 3, K = 64, N = 128, C = 256", "group M by E slot 2*C", "", 512},
      {"E = 3, K = 64, N = 128, C = 256", "group M by E slot C/2", "", 128},
      {"E = 3, K = 64, N = 128", "dyn C\n  group M by E slot C", "in z : f32[C]\n  out s : f32[C] = z\n", 256},
  };
  for (const Case& c : cases) {
    INFO(c.group);
    // A tensor over C alone has nothing to do with the tiles of a gemm: only the general launches know it.
    const bool pointwise = !c.more.empty();
    const std::string text = pointwise ? "kernel test {\n  dim " + c.dims + "\n  " + c.group +
                                             "\n  in x : bf16[M, K]\n  " + c.more + "  out y : f32[M, K] = 2 * x\n}\n"
                                       : ragged_spec(stored_gemm, c.dims, c.group);
    const LoweredText result = lower_text(text);
    check_recipes(result);
    const KernelPlan& plan = result.plan();
    const RecipeTensor* groups =
        plan.recipe.find_tensor(c.group.find("counts") == std::string::npos ? "M.ends" : "M.counts");
    REQUIRE(groups);
    CHECK(number(groups->group_slot) == c.slot);
    CHECK(groups->group_align == 1);
    const ParameterField* slot = nullptr;
    for (const RecipeStep& s : plan.recipe.steps)
      if (const ParameterField* f = find_field(s, pointwise ? "slot_M" : "slot")) slot = f;
    REQUIRE(slot);
    CHECK(number(slot->value) == c.slot);
  }
}

TEST_CASE("a dyn that only a slot has follows from the rows, which are whole slots") {
  for (const std::string& out : {stored_gemm, std::string("out y : f32[M, K] = 2 * x\n out s : f32[E, K] = sum(x)")}) {
    const bool with_gemm = out == stored_gemm;
    const LoweredText result = lower_text(
        with_gemm
            ? ragged_spec(out, "E = 3, K = 64, N = 128", "dyn C\n  group M by E counts i32 slot C")
            : "kernel test {\n dim E = 3, K = 64\n dyn C\n group M by E slot C\n in x : bf16[M, K]\n " + out + "\n}");
    check_recipes(result);
    const KernelPlan& plan = result.plan();
    const RecipeTensor* groups = plan.recipe.find_tensor(with_gemm ? "M.counts" : "M.ends");
    REQUIRE(groups);
    CHECK(number(groups->group_slot) == 256);
    CHECK(symbols_of(plan).find("C") == std::string::npos);
    Numbers odd = sizes;
    odd["M"] = 769;
    CHECK(!evaluate(groups->group_slot, odd));
  }
  const LoweredText twice =
      lower_text(ragged_spec(stored_gemm, "E = 3, K = 64, N = 128", "dyn C\n  group M by E slot 2*C"));
  const IntExpr& slot = twice.plan().recipe.find_tensor("M.ends")->group_slot;
  CHECK(number(slot) == 256);
  CHECK(!evaluate(slot, {{"E", 3}, {"M", 9}}));
}

TEST_CASE("weight gradients, their sums, and passes over tiles know where slots start") {
  const std::string head = "kernel test {\n dim E = 3, K = 64, N = 128\n group M by E slot 256\n in g : bf16[M, N]\n";
  const LoweredText gradient = lower_text(head +
                                          " in x : bf16[M, K]\n h = gemm(g, x)\n out w : f32[E, N, K] += h\n"
                                          " out s : f32[E, K] += sum(h)\n}");
  check_recipes(gradient);
  const RecipeStep& finish = step(gradient.plan(), "kernel_test_finish_s");
  REQUIRE(find_field(finish, "slot"));
  CHECK(number(find_field(finish, "slot")->value) == 256);
  REQUIRE(find_field(step(gradient.plan(), "kernel_test"), "slot"));

  const LoweredText pass = lower_text(head + " out y : bf16[N, M] = 2 * g\n out s : f32[E, N] = sum(g)\n}");
  check_recipes(pass);
  REQUIRE(pass.plan().schedule.family == lowering::Family::pass);
  REQUIRE(find_field(step(pass.plan(), "kernel_test"), "slot"));
  REQUIRE(find_field(step(pass.plan(), "kernel_test_finish_s"), "slot"));

  // Without slots nobody is told of them.
  const LoweredText packed = lower_text(ragged_spec(stored_gemm));
  CHECK(!find_field(step(packed.plan(), "kernel_test"), "slot"));
  CHECK(packed.plan().recipe.find_tensor("M.ends")->group_slot == IntExpr(0));
}

TEST_CASE("where groups end is a launch of its own, behind the others") {
  const std::string group = "group M by E counts i64\n  group P = M align 128";
  const std::string body =
      "h = gemm(x, w)\nout y : bf16[M, N] = h\nout s : f32[E, N] = sum(h)\nout e : i32[E] = P.ends";
  const LoweredText result = lower_text(ragged_spec(body, "E = 3, K = 64, N = 128", group));
  check_recipes(result);
  for (const KernelPlan& plan : result.lowered.plans) {
    const std::vector<RecipeStep>& steps = plan.recipe.steps;
    REQUIRE(steps.size() == 3);
    CHECK(steps[2].entry == "kernel_test_ends_e");
    CHECK(number(steps[2].grid) == 1);
    CHECK(find_field(steps[2], "out")->tensor == "e");
    CHECK(find_field(steps[2], "group_sizes")->tensor == "M.counts");
    CHECK(number(find_field(steps[2], "groups")->value) == 3);
    CHECK(number(find_field(steps[2], "capacity")->value) == 768);
    CHECK(plan.recipe.find_tensor("e")->alignment == 4);
  }

  const LoweredText left_out = lower_text(ragged_spec(body, "E = 3, K = 64, N = 128", group), "", {"e"});
  CHECK(left_out.plan().recipe.steps.size() == 2);

  // With everything else left out there is no gemm.
  const LoweredText alone = lower_text(ragged_spec(body, "E = 3, K = 64, N = 128", group), "", {"y", "s"});
  CHECK(alone.plan().schedule.family == lowering::Family::pointwise);

  const LoweredText pass = lower_text("kernel test {\n dim E = 3, N = 128\n " + group +
                                      "\n in x : bf16[M, N]\n out y : bf16[N, P] = x\n out e : i32[E] = P.ends\n}");
  check_recipes(pass);
  REQUIRE(pass.plan().schedule.family == lowering::Family::pass);
  CHECK(step(pass.plan(), "kernel_test_ends_e").block == 32);

  // Groups that are none of the gemm's.
  const LoweredText foreign = lower_text(
      "kernel test {\n dim E = 3, K = 64, N = 128\n dyn S\n group M by E slot 64\n group P = M align 48\n"
      " in x : bf16[S, K]\n in w : bf16[N, K]\n in r : f32[M, K]\n h = gemm(x, w)\n out y : bf16[S, N] = h\n"
      " out e : i32[E] = P.ends\n}");
  check_recipes(foreign);
  CHECK(number(find_field(step(foreign.plan(), "kernel_test_ends_e"), "slot")->value) == 64);
}

TEST_CASE("alignments that are no power of two; what is refused of groups") {
  for (const char* group : {"group M by E align 48", "group M by E counts i64 align 96\n  group P = M align 48"}) {
    const LoweredText result = lower_text(ragged_spec(stored_gemm, "E = 1, K = 64, N = 128", group));
    check_recipes(result);
    const KernelPlan& plan = result.plan();
    const bool ends = plan.recipe.find_tensor("M.ends") != nullptr;
    CHECK(plan.recipe.find_tensor(ends ? "M.ends" : "M.counts")->group_align == (ends ? 48 : 96));
  }
  const LoweredText blocks =
      lower_text(ragged_spec("out y : mxfp8[N, M] = gemm(x, w)", "E = 3, K = 64, N = 128", "group M by E slot 512"));
  CHECK(blocks.lowered.plans.empty());
  REQUIRE(blocks.diagnostics.all().size() == 1);
  CHECK(blocks.diagnostics.all()[0].message ==
        "an output of type mxfp8 with blocks along 'M', whose groups lie in slots, is not lowered yet");
  CHECK(blocks.diagnostics.all()[0].where.text() == "y");
  // Of the aligned form they are, and so is a memory pass.
  check_recipes(lower_text(ragged_spec("out y : mxfp8[N, P] = gemm(x, w)", "E = 3, K = 64, N = 128",
                                       "group M by E slot 512\n  group P = M align 32")));
  check_recipes(lower_text(
      "kernel test {\n dim E = 3, N = 64\n group M by E slot 512\n in x : bf16[M, N]\n out y : mxfp8[N, M] = x\n}"));

  const LoweredText far = lower_text(ragged_spec(stored_gemm, "E = 3, K = 64, N = 128", "group M by E align 2000000"));
  CHECK(far.lowered.plans.empty());
  CHECK(far.diagnostics.print().find("the alignment 2000000 of 'M' is not lowered") != std::string::npos);
}
