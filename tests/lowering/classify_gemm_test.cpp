// What the GEMM of a kernel is called, and what is refused: by name, at its place.
#include "compiler/lowering/classify_gemm.h"

#include <fmt/format.h>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using ir::Extent;
using lowering::Gemm;

namespace {

Gemm classify(const std::string& text) {
  const ir::Graph graph = simplified(resolve_text(text));
  Diagnostics diagnostics;
  const std::optional<Gemm> gemm = lowering::classify_gemm(graph, diagnostics);
  INFO(text << diagnostics.print());
  REQUIRE(gemm);
  return *gemm;
}

// "ragged_rows: 0.1 k, 1 mn": the operands by their inputs (and halves), those of the rows first.
std::string described(const Gemm& gemm) {
  auto list = [](const std::vector<lowering::GemmOperand>& operands) {
    std::string text;
    for (const lowering::GemmOperand& operand : operands) {
      text += fmt::format(" {}", operand.input);
      if (operand.half >= 0) text += fmt::format(".{}", operand.half);
      text += fmt::format(" {}", lowering::major_name(operand.major));
    }
    return text;
  };
  return fmt::format("{}:{},{}", lowering::form_name(gemm.form), list(gemm.a), list(gemm.b));
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
    CHECK(described(gemm) == "ragged_rows: 0 k, 1 k");
    CHECK(gemm.groups == Extent{1, 0, 1});
    CHECK(gemm.parts == 1);
    CHECK(gemm.part_columns == 128);
    CHECK(gemm.operand == Storage::bf16);
  }
  const Gemm dense = classify(
      "kernel test {\n dim K = 64, N = 96\n dyn S\n in w : f16[N, K]\n in x : f16[S, K]\n out y : f32[S, N] = gemm(w, "
      "x)\n}");
  CHECK(described(dense) == "dense: 1 k, 0 k");
  CHECK(dense.operand == Storage::f16);
  // Of two fixed operands the first gives the rows.
  const Gemm fixed = classify(
      "kernel test {\n dim K = 64, N = 96, R = 256\n in x : f16[R, K]\n in w : f16[N, K]\n"
      " out y : f32[R, N] = gemm(x, w)\n}");
  CHECK(described(fixed) == "dense: 0 k, 1 k");
  CHECK(fixed.part_columns == 96);
  // A contraction whose size is known at launch only.
  CHECK(described(classify("kernel test {\n dim N = 64\n dyn S, K\n in x : bf16[S, K]\n in w : bf16[N, K]\n"
                           " out y : f32[S, N] = gemm(x, w)\n}")) == "dense: 0 k, 1 k");
}

TEST_CASE("operands may lie either way round") {
  auto dense = [](const char* x, const char* w) {
    return described(classify(fmt::format(
        "kernel test {{\n dim K = 64, N = 96\n dyn S\n in x : bf16[{}]\n in w : bf16[{}]\n out y : f32[S, N] = gemm(x, "
        "w)\n}}",
        x, w)));
  };
  CHECK(dense("S, K", "N, K") == "dense: 0 k, 1 k");
  CHECK(dense("S, K", "K, N") == "dense: 0 k, 1 mn");
  CHECK(dense("K, S", "N, K") == "dense: 0 mn, 1 k");
  CHECK(dense("K, S", "K, N") == "dense: 0 mn, 1 mn");
  auto ragged = [](const char* x, const char* w) {
    return described(classify(
        fmt::format("kernel test {{\n dim E = 2, K = 64, N = 96\n group M by E\n in x : bf16[{}]\n in w : bf16[{}]\n"
                    " out y : f32[M, N] = gemm(x, w)\n}}",
                    x, w)));
  };
  CHECK(ragged("M, K", "E, K, N") == "ragged_rows: 0 k, 1 mn");
  CHECK(ragged("K, M", "E, N, K") == "ragged_rows: 0 mn, 1 k");
  CHECK(ragged("M, K", "E][N, K") == "ragged_rows: 0 k, 1 k");
}

TEST_CASE("batches") {
  auto batched = [](const char* sizes, const char* a, const char* b) {
    return classify(
        fmt::format("kernel test {{\n {}\n in a : bf16[{}]\n in b : bf16[{}]\n out c : bf16[B, S, N] = gemm(a, b)\n}}",
                    sizes, a, b));
  };
  for (const char* sizes : {"dim N = 64, K = 64\n dyn B, S", "dim N = 64, K = 64, B = 3, S = 40"}) {
    CHECK(described(batched(sizes, "B, S, K", "B, N, K")) == "batched: 0 k, 1 k");
    CHECK(described(batched(sizes, "B, K, S", "B, K, N")) == "batched: 0 mn, 1 mn");
    CHECK(batched(sizes, "B, S, K", "B, K, N").groups.dim >= 0);
  }
  // Batches of a contraction whose size is known at launch only.
  const Gemm gemm = classify(
      "kernel test {\n dim N = 64, K = 64\n dyn B, S\n in a : bf16[B, S, N]\n in b : bf16[B, S, K]\n"
      " out c : f32[B, N, K] = gemm(a, b)\n}");
  CHECK(described(gemm) == "ragged_depth: 0 mn, 1 mn");
}

TEST_CASE("a weight gradient has one result for each group; its output says which operand gives the rows") {
  auto wgrad = [](const char* product, const char* output) {
    return classify(fmt::format(
        "kernel test {{\n dim E = 2, K = 64, N = 96\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
        " out w : f32[{}] += {}\n}}",
        output, product));
  };
  for (const char* product : {"gemm(g, x)", "gemm(x, g)"}) {
    const Gemm rows_n = wgrad(product, "E, N, K"), rows_k = wgrad(product, "E, K, N");
    CHECK(described(rows_n) == "ragged_depth: 0 mn, 1 mn");
    CHECK(rows_n.part_columns == 64);
    CHECK(described(rows_k) == "ragged_depth: 1 mn, 0 mn");
    CHECK(rows_k.part_columns == 96);
    CHECK(rows_k.groups == Extent{1, 0, 1});
  }
  CHECK(described(wgrad("gemm(g, x)", "E][N, K")) == "ragged_depth: 0 mn, 1 mn");
  // Without groups it is dense.
  CHECK(described(classify("kernel test {\n dim K = 64, N = 96\n dyn S\n in g : bf16[S, N]\n in x : bf16[S, K]\n"
                           " out w : f32[K, N] += gemm(g, x)\n}")) == "dense: 1 mn, 0 mn");
}

TEST_CASE("halves of inputs are operands") {
  const Gemm gemm = classify(
      "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in x : bf16[M, 2*K]\n in w : bf16[E, N, 2*K]\n"
      " a, b = split(x)\n c, d = split(w)\n out y : bf16[M, N] = gemm(b, c)\n}");
  CHECK(described(gemm) == "ragged_rows: 0.1 k, 1.0 k");
  CHECK(gemm.parts == 1);
  // An operand's split deals out nothing of the result, and may differ from one that does.
  const Gemm mixed = classify(
      "kernel test {\n dim E = 2, K = 64, I = 64\n group M by E\n in x : bf16[M, 2*K]\n in w : bf16[E, 2*I, K]\n"
      " a, b = split(x)\n f, s = split(gemm(a, w), 8)\n out y : bf16[M, I] = f * s\n}");
  CHECK(described(mixed) == "ragged_rows: 0.0 k, 1 k");
  CHECK(mixed.piece == 8);
}

TEST_CASE("two gemms run in one loop: with the rows in common, with the columns in common, or as a sum") {
  auto two = [](const std::string& body) {
    return classify("kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n" + body + "\n}");
  };
  const std::string separate = "in x : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\n";
  const Gemm weights = two(separate + "a = gemm(x, v)\nb = gemm(w, x)\nout y : bf16[M, N] = a * b");
  CHECK(described(weights) == "ragged_rows: 0 k, 1 k 2 k");
  CHECK(weights.weights == 2);
  CHECK(weights.parts == 2);
  CHECK(weights.segments == 1);
  CHECK(weights.part_columns == 64);
  CHECK(!weights.split_weight());
  // Both results stored as they are: not only their sum is wanted.
  CHECK(two(separate + "a = gemm(x, v)\nb = gemm(x, w)\nout y : bf16[M, N] = a + b\nout z : bf16[M, N] = a").weights ==
        2);

  const Gemm sum =
      two("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E, K, N]\nin w : bf16[E, K, N]\n"
          "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)");
  CHECK(described(sum) == "ragged_rows: 0 k 1 k, 2 mn 3 mn");
  CHECK(sum.segments == 2);
  CHECK(sum.parts == 1);

  // Of a weight gradient, the operand in common gives the rows, whatever the output's order.
  const std::string halves = "in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\n";
  for (const char* outputs : {"out a : f32[E, N, K] += gemm(f, x)\nout b : f32[E, N, K] += gemm(s, x)",
                              "out a : f32[E, K, N] += gemm(f, x)\nout b : f32[E, K, N] += gemm(s, x)"}) {
    const Gemm shared = two(halves + outputs);
    CHECK(described(shared) == "ragged_depth: 1 mn, 0.0 mn 0.1 mn");
    CHECK(shared.weights == 2);
    CHECK(shared.part_columns == 64);
  }
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

TEST_CASE("columns twice as wide as those of the gemm leave it whole") {
  for (const int64_t piece : {0, 1, 8, 32, 64}) {
    const std::string argument = piece == 0 ? "" : fmt::format(", {}", piece);
    const Gemm gemm =
        classify(ragged_spec(fmt::format("in p : bf16[M, 2*N]\nh = gemm(x, w)\nf, s = split(p{0})\n"
                                         "out y : bf16[M, 2*N] = join(h * f, s{0})",
                                         argument)));
    CHECK(gemm.parts == 1);
    CHECK(gemm.piece == piece);
    CHECK(gemm.part_columns == 128);
  }
}

TEST_CASE("what is not lowered yet is refused by name, at its place") {
  const std::string grouped = "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n ";
  const std::string dense = "kernel test {\n dim K = 64, N = 64\n dyn S\n ";
  const std::vector<Refusal> refusals = {
      {grouped + "in x : bf16[M, K]\n in z : bf16[M, K]\n in v : bf16[E, N, K]\n in w : bf16[E, N, K]\n"
                 " out y : bf16[M, N] = gemm(x, v) * gemm(z, w)\n}",
       "a second gemm that shares no operand with the first", "gemm(z, w)"},
      {grouped + "in x : bf16[M, K]\n in z : bf16[M, K]\n in w : bf16[E, N, K]\n"
                 " out y : bf16[M, N] = gemm(x, w) * gemm(z, w)\n}",
       "a second gemm that shares its weight with the first", "gemm(z, w)"},
      {dense + "in x : bf16[S, K]\n in z : bf16[S, K]\n in w : bf16[N, K]\n"
               " out y : bf16[S, N] = gemm(x, w) * gemm(z, w)\n}",
       "a second gemm that shares its weight with the first", "gemm(z, w)"},
      {grouped + "in x : bf16[M, K]\n in z : bf16[M, K]\n in v : bf16[E, N, K]\n in w : bf16[E, K, N]\n"
                 " out y : bf16[M, N] = gemm(x, v) + gemm(z, w)\n}",
       "the sum of two gemms whose operands lie differently", "gemm(z, w)"},
      {grouped + "in x : bf16[M, K]\n in z : bf16[M, 2*K]\n in v : bf16[E, N, K]\n in w : bf16[E, N, 2*K]\n"
                 " out y : bf16[M, N] = gemm(x, v) + gemm(z, w)\n}",
       "the sum of two gemms that contract different names, K and 2*K,", "gemm(z, w)"},
      {grouped + "in x : bf16[M, K]\n in v : bf16[E, N, K]\n in w : bf16[E][N, K]\n"
                 " out y : bf16[M, N] = gemm(x, v) * gemm(x, w)\n}",
       "two gemms of which one has a buffer for each group", "gemm(x, w)"},
      {grouped + "in x : bf16[M, K]\n in v : bf16[E, 2*N, K]\n in w : bf16[E, 2*N, K]\n"
                 " f, s = split(gemm(x, v))\n g, t = split(gemm(x, w))\n out y : bf16[M, N] = f * s * g * t\n}",
       "a split of the results of two gemms", "split(gemm(x, v))"},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n dyn T\n group M by E\n in x : bf16[T, K]\n in i : i32[M]\n"
       " in w : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x[i], w)\n}",
       "'gather' in a kernel with gemm", "x[i]"},
      {ragged_spec("in b : f32[E, N]\nout y : bf16[M, N] = gemm(x, w) + hadamard(b, E)"),
       "hadamard along E, neither the rows nor the columns of the kernel,", "hadamard("},
      {halved_spec("h = gemm(x, w)\nf, s = split(h, 8)\nout p : bf16[M, 2*I] = hadamard(h, 2*I)\n"
                   "out y : bf16[M, I] = f * s"),
       "hadamard along 2*I, dealt out in pieces of 8,", "hadamard("},
      {halved_spec("h = gemm(x, w)\nf, s = split(h)\nout p : bf16[M, 2*I] = hadamard(h, 2*I)\n"
                   "out y : bf16[M, I] = f * s",
                   "E = 2, K = 64, I = 40"),
       "hadamard along 2*I, whose halves of 40 are no multiple of 16,", "hadamard("},
      {grouped + "in x : e4m3[M, K]\n in w : e4m3[E, N, K]\n out y : bf16[M, N] = gemm(x, w)\n}",
       "a gemm operand of type e4m3", "w"},
      {grouped + "in x : f16[M, K]\n in w : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x, w)\n}",
       "a gemm of f16 and bf16 operands is not lowered yet", "gemm("},
      {grouped + "in g : bf16[M, N]\n in x : f16[M, K]\n out w : f32[E, N, K] = gemm(g, x)\n}",
       "a gemm of bf16 and f16 operands is not lowered yet", "gemm("},
      {grouped + "in g : bf16[N, M]\n in x : bf16[M, K]\n out w : f32[E, N, K] = gemm(g, x)\n}",
       "contracting M where it is the last dimension of an operand is not lowered yet", "gemm("},
      {"kernel test {\n dim K = 64, N = 64\n dyn B, S\n in g : bf16[B, N, S]\n in x : bf16[B, S, K]\n"
       " out w : f32[B, N, K] = gemm(g, x)\n}",
       "contracting S where it is the last dimension of an operand is not lowered yet", "gemm("},
      {"kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n group P = M align 128\n in x : bf16[P, K]\n"
       " in w : bf16[E, N, K]\n out y : bf16[P, N] = gemm(x, w)\n}",
       "a gemm operand over an aligned dimension", "x"},
      {"kernel test {\n dim K = 64, N = 64, S = 64, B = 2\n in x : bf16[B][S, K]\n in w : bf16[B, N, K]\n"
       " out y : bf16[B, S, N] = gemm(x, w)\n}",
       "one buffer for each group as the operand that gives the rows", "x"},
      {"kernel test {\n dim K = 64, N = 64, S = 64, B = 2\n in x : bf16[B, S, K]\n in z : bf16[B, S, K]\n"
       " in w : bf16[B][N, K]\n out y : bf16[B, S, N] = gemm(x, w) * gemm(z, w)\n}",
       "one buffer for each group as the operand that gives the rows", "w"},
      {"kernel test {\n dim K = 64, N = 64\n dyn S, T\n in x : bf16[T, S, K]\n in w : bf16[N, K]\n"
       " out y : bf16[T, S, N] = gemm(x, w)\n}",
       "a gemm operand of shape [T, S, K]", "x"},
      {grouped + "in x : bf16[M, 2*K]\n in w : bf16[E, N, K]\n f, s = split(x, 8)\n out y : bf16[M, N] = gemm(f, w)\n}",
       "half of an input dealt out in pieces of 8 as operand of gemm", "split(x, 8)"},
      {grouped + "in x : bf16[M, K]\n in w : bf16[N, K]\n out y : bf16[M, N] = gemm(x, w)\n}",
       "a weight [N, K] without the group dimension E", "w"},
      {ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 2, K = 60, N = 64"),
       "a contracted dimension K = 60, which is no multiple of 8,", "w"},
      {ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 2, K = 64, N = 60"), "N = 60 columns, no multiple of 8,",
       "w"},
      {halved_spec("f, s = split(gemm(x, w))\nout y : bf16[M, I] = f * s", "E = 2, K = 64, I = 12"),
       "I = 12 columns, no multiple of 8,", "w"},
      {"kernel test {\n dim E = 2, K = 64, N = 60\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
       " out w : f32[E, N, K] = gemm(g, x)\n}",
       "N = 60 rows, no multiple of 8, of an operand with contiguous rows,", "g"},
      {halved_spec("h = gemm(x, w)\nf, s = split(h)\na, b = split(h, 8)\nout y : bf16[M, I] = f * s + a * b"),
       "two splits with different pieces", "split("},
      {ragged_spec("in p : bf16[M, 4*N]\nf, s = split(p)\ng, t = split(f)\nout y : bf16[M, N] = gemm(x, w) * g * t"),
       "a split of something else than the columns of gemm", "split(p)"},
      {halved_spec("f, s = split(gemm(x, w), 8)\nout y : bf16[M, I] = f * s", "E = 2, K = 64, I = 40"),
       "a split in pieces of 8 of 80 columns", "w"},
      {"kernel test {\n dim E = 2, K = 64, I = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, 2*I]\n"
       " f, s = split(gemm(x, w), 16)\n out y : bf16[M, I] = f * s\n}",
       "a split in pieces of 16 of columns that are contiguous in memory", "w"},
  };
  for (const Refusal& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("what no output needs is not refused") {
  const std::string spec =
      ragged_spec("in b : f32[E, N]\nh = gemm(x, w)\nout y : bf16[M, N] = h\nout r : bf16[M, N] = h + hadamard(b, E)");
  CHECK(lower_text(spec).lowered.plans.empty());
  CHECK(!lower_text(spec, "", {"r"}).lowered.plans.empty());
}

// Why some of the language's examples are not lowered today. A line goes from there when it is; the others are.
TEST_CASE("the examples of the language: lowered, or refused for these reasons") {
  const std::vector<std::pair<std::string, std::string>> refused = {
#include "tests/lowering/refused_examples.inc"
  };
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  const std::vector<std::string> names = kernel_names(program);
  CHECK(names.size() == 46);
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
    CHECK(result.lowered.plans.empty() == (known != refused.end()));
  }
}
