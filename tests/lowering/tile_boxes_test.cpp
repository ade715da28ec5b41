// From the recipe's tensor maps to the accumulators of a thread (tile_checker.h says what is held against what), for
// every form of gemm, deal of columns and schedule.
#include "tests/lowering/tile_checker.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr Major k = Major::k, mn = Major::mn;
using Ragged = Form<GemmForm::ragged_rows, k, k>;
using Dense = Form<GemmForm::dense, k, k>;

std::string with_columns(int64_t columns, const std::string& piece) {
  const std::string value = piece.empty() ? "" : "f, s = split(gemm(x, w)" + piece + ")\n";
  const std::string dims = fmt::format("E = 3, K = 72, {} = {}", piece.empty() ? "N" : "I", columns);
  return piece.empty() ? ragged_spec("out y : bf16[M, N] = gemm(x, w)", dims)
                       : halved_spec(value + "out y : bf16[M, I] = f * s", dims);
}

// E = 3 groups; `body` declares inputs and outputs.
std::string grouped(const std::string& body, const std::string& dims = "E = 3, K = 72, N = 160") {
  return "kernel test {\n dim " + dims + "\n group M by E\n" + body + "\n}\n";
}
std::string dense(const std::string& x, const std::string& w) {
  return "kernel test {\n dim K = 72, N = 160\n dyn S\n in x : f16[" + x + "]\n in w : f16[" + w +
         "]\n out y : bf16[S, N] = gemm(x, w)\n}\n";
}

}  // namespace

TEST_CASE("one part: whole blocks of 32 weight rows, and pairs of rows where there are none") {
  for (const int64_t columns : {32, 160}) check_kernel<Ragged>(with_columns(columns, ""));
  for (const int64_t columns : {8, 40, 264}) check_kernel<Ragged, 1, true>(with_columns(columns, ""));
}

TEST_CASE("halves") {
  for (const int64_t columns : {32, 160}) check_kernel<Ragged, 2>(with_columns(columns, " "));
  for (const int64_t columns : {8, 72}) check_kernel<Ragged, 2, true>(with_columns(columns, " "));
}

TEST_CASE("halves that alternate by one, eight and 32") {
  for (const char* piece : {", 1", ", 8", ", 32"})
    for (const int64_t columns : {32, 160}) check_kernel<Ragged, 2>(with_columns(columns, piece));
}

TEST_CASE("halves in pieces as wide as a tile") {
  check_kernel<Ragged, 2, false, 64>(with_columns(192, ", 64"));
  check_kernel<Ragged, 2, false, 128>(with_columns(256, ", 128"));
}

TEST_CASE("dense, in all four layouts") {
  check_kernel<Dense>(dense("S, K", "N, K"));
  check_kernel<Form<GemmForm::dense, k, mn>>(dense("S, K", "K, N"));
  check_kernel<Form<GemmForm::dense, mn, k>>(dense("K, S", "N, K"));
  check_kernel<Form<GemmForm::dense, mn, mn>>(dense("K, S", "K, N"));
}

TEST_CASE("ragged rows with weights and rows that are contiguous in memory") {
  using Weights = Form<GemmForm::ragged_rows, k, mn>;
  for (const int64_t columns : {8, 64, 200})
    check_kernel<Weights>(grouped("in x : bf16[M, K]\nin w : bf16[E, K, N]\nout y : bf16[M, N] = gemm(x, w)",
                                  fmt::format("E = 3, K = 72, N = {}", columns)));
  check_kernel<Weights, 2>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w))\nout y : bf16[M, N] = f * s"));
  check_kernel<Weights, 2, false, 64>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w), 64)\nout y : bf16[M, N] = f * s",
              "E = 3, K = 72, N = 192"));
  const auto by_turns = [](int piece) {
    return grouped(fmt::format("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w), {})\n"
                               "out y : bf16[M, N] = f * s",
                               piece),
                   "E = 3, K = 72, N = 96");
  };
  check_kernel<Weights, 2, false, 1>(by_turns(1));
  check_kernel<Weights, 2, false, 8>(by_turns(8));
  check_kernel<Weights, 2, false, 32>(by_turns(32));
  check_kernel<Form<GemmForm::ragged_rows, mn, k>>(
      grouped("in x : bf16[K, M]\nin w : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, w)"));
}

TEST_CASE("pairs of CTAs: each brings its rows, and every other k-tile of the columns for both") {
  using Weights = Form<GemmForm::ragged_rows, k, k, false, 1, false, true>;
  check_kernel<Weights>(with_columns(160, ""));
  check_kernel<Weights, 2>(with_columns(160, " "));
  using Columns = Form<GemmForm::ragged_rows, k, mn, false, 1, false, true>;
  check_kernel<Columns>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, N]\nout y : bf16[M, N] = gemm(x, w)", "E = 3, K = 136, N = 200"));
  check_kernel<Columns, 2, false, 8>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w), 8)\nout y : bf16[M, N] = f * s",
              "E = 3, K = 72, N = 96"));
}

TEST_CASE("batches") {
  auto batched = [](const char* a, const char* b) {
    return fmt::format(
        "kernel test {{\n dim K = 72, N = 160\n dyn B, S\n in a : bf16[{}]\n in b : bf16[{}]\n"
        " out c : bf16[B, S, N] = gemm(a, b)\n}}",
        a, b);
  };
  check_kernel<Form<GemmForm::batched, k, k>>(batched("B, S, K", "B, N, K"));
  check_kernel<Form<GemmForm::batched, k, mn>>(batched("B, S, K", "B, K, N"));
  const std::string rows =
      "kernel test {\n dim K = 72, N = 160, B = 3, R = 136\n in a : bf16[B, K, R]\n in b : bf16[B, K, N]\n"
      " out c : bf16[B, R, N] = gemm(a, b)\n}";
  check_kernel<Form<GemmForm::batched, mn, mn>>(rows);
}

TEST_CASE("a contraction in groups: what lies behind a group is zero, also where the next one has elements") {
  using Depths = Form<GemmForm::ragged_depth, mn, mn, true>;
  for (const int64_t rows : {64, 136, 8})
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{130, 0, 1}, {0, 64, 65}, {63, 128, 0}})
      check_kernel<Depths>(grouped("in g : bf16[M, N]\nin x : bf16[M, K]\nout w : f32[E, N, K] += gemm(g, x)",
                                   fmt::format("E = 3, K = 72, N = {}", rows)),
                           counts);
  // Halves as rows and as columns, of one operand and of two results.
  check_kernel<Depths>(
      grouped("in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\nout w : f32[E, N, K] += gemm(s, x)"));
  check_kernel<Depths, 2>(
      grouped("in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\nout a : f32[E, N, K] += gemm(f, x)\nout b : "
              "f32[E, N, K] += gemm(s, x)"));
  check_kernel<Form<GemmForm::ragged_depth, mn, mn, true, 2>>(
      grouped("in f : bf16[M, N]\nin s : bf16[M, N]\nin x : bf16[M, K]\nin z : bf16[M, K]\n"
              "out w : f32[E, N, K] += gemm(f, x) + gemm(s, z)"));
  // Batches of one depth need no such boxes.
  check_kernel<Form<GemmForm::ragged_depth, mn, mn>>(
      "kernel test {\n dim K = 72, N = 160\n dyn B, S\n in a : bf16[B, S, N]\n in b : bf16[B, S, K]\n"
      " out c : f32[B, N, K] = gemm(a, b)\n}");
}

TEST_CASE("halves of inputs, two weights, two segments") {
  check_kernel<Ragged>(
      grouped("in x : bf16[M, 2*K]\nin w : bf16[E, N, 2*K]\na, b = split(x)\nc, d = split(w)\n"
              "out y : bf16[M, N] = gemm(b, d)"));
  check_kernel<Ragged, 2>(grouped(
      "in x : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, v) * gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn>, 2>(grouped(
      "in x : bf16[M, K]\nin v : bf16[E, K, N]\nin w : bf16[E, K, N]\nout y : bf16[M, N] = gemm(x, v) * gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 2>>(
      grouped("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\n"
              "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"));
}

TEST_CASE("weights of one buffer for each group") {
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][N, K]\nout y : bf16[M, N] = gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>, 1, true>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][N, K]\nout y : bf16[M, N] = gemm(x, w)", "E = 3, K = 72, N = 40"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>, 2>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][2*N, K]\nf, s = split(gemm(x, w), 8)\nout y : bf16[M, N] = f * s"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn, false, 1, true>>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][K, N]\nout y : bf16[M, N] = gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn, false, 2, true>>(
      grouped("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E][K, N]\nin w : bf16[E][K, N]\n"
              "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"));
}
