// What the GEMM of a kernel is called, and what is refused: by name, at its place.
#include "compiler/lowering/classify_gemm.h"

#include <fmt/format.h>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::Gemm;
using lowering::GemmForm;

namespace {

Gemm classify(const std::string& text) {
  const ir::Graph graph = simplified(resolve_text(text));
  Diagnostics diagnostics;
  const std::optional<Gemm> gemm = lowering::classify_gemm(graph, diagnostics);
  INFO(text << diagnostics.print());
  REQUIRE(gemm);
  return *gemm;
}

struct Refusal {
  std::string spec;
  std::string message;  // begins with
  std::string place;    // the text under the caret begins with
};

void check_refusal(const Refusal& refusal) {
  const LoweredText result = lower_text(refusal.spec);
  INFO(refusal.spec << result.diagnostics.print());
  CHECK(result.lowered.plans.empty());
  bool found = false;
  for (const Diagnostic& said : result.diagnostics.all())
    found = found || (said.message.starts_with(refusal.message) && said.where.text().starts_with(refusal.place) &&
                      !said.hint.empty());
  INFO(refusal.message << " at " << refusal.place);
  CHECK(found);
}

}  // namespace

TEST_CASE("ragged rows and dense kernels are told apart, whichever operand comes first") {
  for (const char* product : {"gemm(x, w)", "gemm(w, x)"}) {
    const Gemm gemm = classify(ragged_spec(fmt::format("out y : bf16[M, N] = {}", product)));
    CHECK(gemm.form == GemmForm::ragged_rows);
    CHECK(gemm.a == 0);
    CHECK(gemm.b == 1);
    CHECK(gemm.groups == 0);
    CHECK(gemm.parts == 1);
    CHECK(gemm.part_columns == 128);
    CHECK(gemm.operand == Storage::bf16);
  }
  const Gemm dense = classify(
      "kernel test {\n dim K = 64, N = 96\n dyn S\n in w : f16[N, K]\n in x : f16[S, K]\n out y : f32[S, N] = gemm(w, "
      "x)\n}");
  CHECK(dense.form == GemmForm::dense);
  CHECK(dense.a == 1);
  CHECK(dense.b == 0);
  CHECK(dense.operand == Storage::f16);
  // Of two fixed operands the first gives the rows.
  const Gemm fixed = classify(
      "kernel test {\n dim K = 64, N = 96, R = 256\n in x : f16[R, K]\n in w : f16[N, K]\n"
      " out y : f32[R, N] = gemm(x, w)\n}");
  CHECK(fixed.a == 0);
  CHECK(fixed.part_columns == 96);
}

TEST_CASE("a split of the columns makes two parts") {
  for (const int64_t piece : {0, 1, 8, 32, 64}) {
    const std::string argument = piece == 0 ? "" : fmt::format(", {}", piece);
    const Gemm gemm =
        classify(halved_spec(fmt::format("f, s = split(gemm(x, w){})\nout y : bf16[M, I] = f * s", argument)));
    CHECK(gemm.parts == 2);
    CHECK(gemm.piece == piece);
    CHECK(gemm.part_columns == 128);
  }
  // Also where the GEMM's own shape has the columns first, and the split is of an input.
  const Gemm gemm =
      classify(halved_spec("in p : bf16[M, 2*I]\nf, s = split(p)\nh = gemm(w, x)\nout z : bf16[M, 2*I] = h\n"
                           "out y : bf16[M, I] = f * s"));
  CHECK(gemm.parts == 2);
}

TEST_CASE("what is not lowered yet is refused by name, at its place") {
  const std::string copy = "\nout y : bf16[M, N] = gemm(x, w)";
  const std::vector<Refusal> refusals = {
      {"kernel test {\n dim N = 8\n dyn S\n in x : bf16[S, N]\n out y : bf16[S, N] = 2 * x\n}", "a kernel without gemm",
       "y"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, N, K]\n"
       " in v : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x, w) + gemm(x, v)\n}",
       "a second gemm in one kernel", "gemm(x, v)"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n dyn T\n group M by E\n in x : bf16[T, K]\n in i : i32[M]\n"
       " in w : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x[i], w)\n}",
       "'gather'", "x[i]"},
      {ragged_spec("out y : bf16[M, N] = hadamard(gemm(x, w), N)"), "'hadamard'", "hadamard("},
      {halved_spec("f, s = split(gemm(x, w))\nout y : bf16[M, 2*I] = join(s, f)"), "'join'", "join("},
      {ragged_spec("in p : bf16[M, N]\ng = grad(p * p, gemm(x, w), p)\nout y : bf16[M, N] = g"), "'grad'", "grad("},
      {ragged_spec("out e : i32[E] = P.ends" + copy, "E = 2, K = 64, N = 64", "group M by E\n group P = M align 128"),
       "'group_ends'", "P.ends"},
      {ragged_spec("h = gemm(x, w)\nout y : bf16[M, N] = h\nout s : f32[E, N] = sum(h)"), "'sum' at an out", "s"},
      {ragged_spec("h = gemm(x, w)\nout y : bf16[M, N] = h\nout s : f32[E] = amax(h)"), "'amax' at an out", "s"},
      {ragged_spec("out y : f32[M, N] += gemm(x, w)"), "'+='", "y"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : e4m3[M, K]\n in w : e4m3[E, N, K]\n"
       " out y : bf16[M, N] = gemm(x, w)\n}",
       "a gemm operand of type e4m3", "w"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : f16[M, K]\n in w : bf16[E, N, K]\n"
       " out y : bf16[M, N] = gemm(x, w)\n}",
       "a gemm of f16 and bf16 operands is not lowered yet", "gemm("},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in g : bf16[M, N]\n in x : f16[M, K]\n"
       " out w : f32[E, N, K] = gemm(g, x)\n}",
       "a weight gradient (a gemm that contracts the grouped dimension M) is not lowered yet", "gemm("},
      {"kernel test {\n dim K = 64, N = 64\n dyn S\n in g : bf16[S, N]\n in x : bf16[S, K]\n"
       " out w : f32[N, K] = gemm(g, x)\n}",
       "contracting S, whose size is known at launch only, is not lowered yet", "gemm("},
      {"kernel test {\n dim N = 64\n dyn S, K\n in x : bf16[S, K]\n in w : bf16[N, K]\n"
       " out y : f32[S, N] = gemm(x, w)\n}",
       "contracting K, whose size is known at launch only, is not lowered yet", "gemm("},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E][N, K]\n"
       " out y : bf16[M, N] = gemm(x, w)\n}",
       "a weight of one buffer for each group", "w"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, N]\n"
       " out y : bf16[M, N] = gemm(x, w)\n}",
       "a gemm operand [E, K, N] whose last dimension is not the contracted K", "w"},
      {"kernel test {\n dim K = 64, N = 64\n dyn B, S\n in x : bf16[B, S, K]\n in w : bf16[B, N, K]\n"
       " out y : bf16[B, S, N] = gemm(x, w)\n}",
       "a batched gemm", "x"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, 2*K]\n in w : bf16[E, N, K]\n f, s = "
       "split(x)\n"
       " out y : bf16[M, N] = gemm(f, w)\n}",
       "a half of an input as operand of gemm", "split(x)"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[N, K]\n"
       " out y : bf16[M, N] = gemm(x, w)\n}",
       "a weight [N, K] without the group dimension E", "w"},
      {ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 2, K = 64, N = 64", "dyn C\n group M by E counts slot C"),
       "'slot' in a group clause", ""},
      {ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 2, K = 60, N = 64"), "a contracted dimension K = 60", "w"},
      {ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 2, K = 64, N = 60"),
       "N = 60 columns in 1 part, no multiple of 8", "w"},
      {halved_spec("f, s = split(gemm(x, w))\nout y : bf16[M, I] = f * s", "E = 2, K = 64, I = 12"),
       "2*I = 24 columns in 2 parts, no multiple of 8", "w"},
      {halved_spec("h = gemm(x, w)\nf, s = split(h)\na, b = split(h, 8)\nout y : bf16[M, I] = f * s + a * b"),
       "two splits with different pieces", "split("},
      {ragged_spec("in p : bf16[M, 2*N]\nf, s = split(p)\nout y : bf16[M, N] = gemm(x, w) * f * s"),
       "a split of something else than the columns of gemm", "split(p)"},
      {halved_spec("f, s = split(gemm(x, w), 8)\nout y : bf16[M, I] = f * s", "E = 2, K = 64, I = 40"),
       "a split in pieces of 8 of 80 columns", "w"},
  };
  for (const Refusal& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("what no output needs is not refused") {
  const std::string spec = ragged_spec(
      "h = gemm(x, w)\nout y : bf16[M, N] = h\nout s : f32[E] = amax(h)\n"
      "out r : bf16[M, N] = hadamard(h, N)");
  CHECK(lower_text(spec).lowered.plans.empty());
  CHECK(!lower_text(spec, "", {"s", "r"}).lowered.plans.empty());
}

// Which of the language's examples are lowered today, and why the others are not. A line goes from here when it is.
TEST_CASE("the examples of the language: lowered, or refused for these reasons") {
  const std::vector<std::pair<std::string, std::string>> refused = {
#include "tests/lowering/refused_examples.inc"
  };
  const std::set<std::string> lowered = {"moe_fc1_swiglu", "dense_swiglu", "counts64", "fc2_prob_bias", "user_act_fwd"};
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  const std::vector<std::string> names = kernel_names(program);
  CHECK(names.size() == refused.size() + lowered.size());
  for (const std::string& name : names) {
    ResolveOptions options;
    const std::optional<ir::Graph> unbound = resolve(program, name, {}, diagnostics);
    REQUIRE(unbound);
    for (const ir::Dimension& dim : unbound->dims)
      if (dim.kind == ir::DimKind::fixed) options.dims[dim.name] = dim.name == "E" ? 4 : 128;
    const std::optional<ir::Graph> graph = resolve(program, name, options, diagnostics);
    REQUIRE(graph);
    const LoweredText result = lower_graph(*graph);
    std::string reasons;
    for (const Diagnostic& said : result.diagnostics.all()) {
      CHECK(said.where.file != nullptr);
      constexpr std::string_view end = " is not lowered yet";
      const std::string reason =
          said.message.ends_with(end) ? said.message.substr(0, said.message.size() - end.size()) : said.message;
      if (reasons.find(reason) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    INFO(name << "\n" << result.diagnostics.print());
    const auto known = std::find_if(refused.begin(), refused.end(), [&](const auto& r) { return r.first == name; });
    CHECK(reasons == (known == refused.end() ? "" : known->second));
    CHECK(result.lowered.plans.empty() == !lowered.count(name));
  }
}
