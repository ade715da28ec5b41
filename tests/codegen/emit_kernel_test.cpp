// The CUDA text as a whole. What a compiler says of it is in nvrtc_epilogues_test.cpp.
#include "compiler/codegen/emit_kernel.h"

#include <regex>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

std::string emit(const LoweredText& result, std::string_view schedule = "") {
  return codegen::emit_kernel(result.lowered.graph, result.plan(schedule));
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("equal plans give equal text") {
  for (const std::string& path : spec_paths()) {
    const LoweredText once = lower_spec(path), again = lower_spec(path);
    for (size_t i = 0; i < once.lowered.plans.size(); ++i)
      CHECK(codegen::emit_kernel(once.lowered.graph, once.lowered.plans[i]) ==
            codegen::emit_kernel(again.lowered.graph, again.lowered.plans[i]));
  }
}

TEST_CASE("the parameter struct has the fields of the recipe, in order") {
  const LoweredText result = lower_text(
      halved_spec("param limit = 7\nin r : bf16[M, 2*I]\nin b : f32[E]\nh = gemm(x, w) + r + b\nf, s = split(h)\n"
                  "out y : mxfp8[M, I] = min(f, limit) * s",
                  "E = 3, K = 64, I = 128", "group M by E counts i64"));
  const std::string text = emit(result);
  const size_t begin = text.find("struct Parameters {"), end = text.find("};", begin);
  REQUIRE(end != std::string::npos);
  CHECK(text.substr(begin, end - begin) == R"(struct Parameters {
  TensorMap a[1];
  TensorMap a_checked[1];
  TensorMap b[2];
  TensorMap tile_input[2];
  void* group_sizes;
  void* in_b;
  void* out_y;
  void* scales_y;
  int groups;
  int capacity;
  int all_rows;
  int depth;
  int columns;
  int column_tiles;
  int band;
  int b_group_rows;
  int pitch_y;
  int scale_pitch_y;
  float param_limit;
)");
  CHECK(text.find("static_assert(sizeof(Parameters) == " +
                  std::to_string(result.plan().recipe.steps[0].parameter_bytes)) != std::string::npos);
  CHECK(text.find("Groups::counts") != std::string::npos);
  CHECK(text.find("wide_sizes = true") != std::string::npos);
}

TEST_CASE("no name of a spec stands alone in the text") {
  // Words of C++ and of the templates would meet their own meaning there.
  const std::vector<std::string> names = {"lane",    "tile", "sums",   "p",    "block",
                                          "columns", "int",  "double", "this", "Plan"};
  std::string spec =
      "kernel while {\n dim E = 2, K = 64, N = 64\n group M by E\n param float = 2\n in x : f16[M, K]\n"
      " in w : f16[E, N, K]\n h = gemm(x, w) * float";
  std::string declared;
  for (size_t i = 0; i + 2 < names.size(); ++i) {
    declared += " in " + names[i] + " : f32[M]\n";
    spec += " + " + names[i];
  }
  spec.insert(spec.find(" h = "), declared);
  spec += "\n out this : bf16[M, N] = h\n out Plan : mxfp8[M, N] = h\n}\n";
  std::string text = emit(lower_text(spec));
  text = text.substr(text.find('\n'));  // the first line is a comment
  CHECK(text.find("kernel_while(const __grid_constant__ Parameters p)") != std::string::npos);
  CHECK(!std::regex_search(text, std::regex("\\bwhile\\b")));
  CHECK(!std::regex_search(text, std::regex("\\bdouble\\b")));
  CHECK(!std::regex_search(text, std::regex("\\bthis\\b")));
  for (const std::string& name : names) CHECK(text.find("_" + name) != std::string::npos);
}

TEST_CASE("sinks of one value compute it once for each block") {
  const LoweredText result =
      lower_text(ragged_spec("v = tanh(gemm(x, w))\nout a : bf16[M, N] = v\nout b : mxfp8[M, N] = v\nout c : mxfp8[N, "
                             "P] = v\nout d : f32[M, N] = 2 * v",
                             "E = 3, K = 64, N = 128", "group M by E\n group P = M align 128"));
  const std::string text = emit(result);
  // … and a value that needs it is computed with it.
  CHECK(count(text, " value_1_3(block_1.v[i][c], block_3.v[i][c], sums.at(") == 1);
  CHECK(count(text, "tanhf(") == 1);
  CHECK(count(text, "store_rows<bf16>(") == 1);
  CHECK(count(text, "store_rows_mx<e4m3>(") == 1);
  CHECK(count(text, "store_transposed_mx<e4m3, true>(") == 1);
  CHECK(count(text, "store_rows<f32>(") == 1);
  // Rows of the gap are cleared for the value that reaches it, not for the other.
  CHECK(count(text, "clear_missing_rows(") == 1);
}

TEST_CASE("a block is rotated once, behind its own sinks and before what needs it") {
  const std::string body =
      "v = tanh(gemm(x, w))\nr = cast(hadamard(v, M, 0xD7E8), bf16)\nout t : bf16[N, M] = r\n"
      "out a : f32[E] = amax(r)\nout s : bf16[M, N] = 4 * hadamard(r, N)\nout y : bf16[M, N] = v";
  const std::string text = emit(lower_text(ragged_spec(body, "E = 3, K = 64, N = 40")));
  INFO(text);
  CHECK(count(text, "#include \"epilogue/hadamard.cuh\"") == 1);
  CHECK(count(text, "tanhf(") == 1);
  size_t at = 0;
  for (const char* next :
       {"value_1(sums.at(", "clear_missing_rows(value0, lane, tile.valid_rows)", "store_rows<bf16>(value0, p.out_y",
        "hadamard_2 = value0;", "hadamard_rows<0xd7e8>(hadamard_2, lane);", "value_3(hadamard_2.v[i][c])",
        "clear_missing_columns(value0, columns);", "store_transposed<bf16, false>(value0, p.out_t",
        "hadamard_5 = value0;", "hadamard_columns<0x0>(hadamard_5, lane);", "value_6(hadamard_5.v[i][c])",
        "store_rows<bf16>(value0, p.out_s"}) {
    INFO(next);
    const size_t found = text.find(next, at);
    REQUIRE(found != std::string::npos);
    at = found + 1;
  }
  CHECK(count(text, "hadamard_rows<") == 1);
  CHECK(count(text, "hadamard_columns<") == 1);
  // Whole blocks of columns have none that are missing.
  CHECK(count(emit(lower_text(ragged_spec(body))), "clear_missing_columns(") == 0);
  CHECK(count(emit(lower_text(ragged_spec("out y : bf16[M, N] = gemm(x, w)"))), "hadamard") == 0);
}

TEST_CASE("four rows are stored at once only where the capacity cannot cut them") {
  const std::string dims = "E = 3, K = 64, N = 128";
  auto text = [&](const std::string& shape, const std::string& group) {
    return emit(lower_text(ragged_spec("out t : bf16[N, " + shape + "] = gemm(x, w)", dims, group)));
  };
  CHECK(count(text("P", "group M by E\n group P = M align 128"), "store_transposed<bf16, true>") == 1);
  CHECK(count(text("M", "group M by E"), "store_transposed<bf16, false>") == 1);
  CHECK(count(text("M", "group M by E align 128"), "store_transposed<bf16, false>") == 1);
}

TEST_CASE("the traits of a plan say what its gemm is") {
  auto traits = [](const std::string& body, const std::string& schedule = "pingpong 128x128") {
    const std::string text =
        emit(lower_text("kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n" + body + "\n}"), schedule);
    const size_t begin = text.find("struct Plan {");
    return text.substr(begin, text.find("};", begin) - begin);
  };
  auto has = [](const std::string& text, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      INFO(line << "\n" << text);
      CHECK(text.find(line) != std::string::npos);
    }
  };
  const std::string gradients = "in g : bf16[M, N]\nin x : bf16[M, K]\n";
  has(traits(gradients + "out w : f32[E, N, K] += gemm(g, x)"),
      {"a_major = Major::mn, b_major = Major::mn;", "ragged_depth = true;", "ragged_boxes = true;",
       "skips_empty = true;", "depth_alignment = 1;", "ragged_rows = false;", "b_pointers = false;"});
  // Of an empty group zeros are stored, and a sum over all groups reads partials of each.
  has(traits(gradients + "out w : f32[E, N, K] = gemm(g, x)"), {"skips_empty = false;"});
  has(traits(gradients + "v = gemm(g, x)\nout w : f32[E, N, K] += v\nout s : f32 += sum(v)"), {"skips_empty = false;"});
  has(traits("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E][K, N]\nin w : bf16[E][K, N]\n"
             "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"),
      {"segments = 2;", "parts = 1;", "b_pointers = true;", "ragged_rows = true;",
       "a_major = Major::k, b_major = Major::mn;"});
  has(traits("in x : bf16[M, K]\nin w : bf16[E, 2*N, K]\nf, s = split(gemm(x, w), 64)\nout y : bf16[M, N] = f * s"),
      {"parts = 2;", "piece = 64;"});
  // Two weights are not dealt out, though their join is.
  has(traits("in x : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\n"
             "out y : bf16[M, 2*N] = join(gemm(x, v), gemm(x, w), 64)"),
      {"parts = 2;", "piece = 0;"});
}

TEST_CASE("an empty group's zero is the gradient's, not that of outputs without it") {
  const auto text = [](const std::string& outputs) {
    return emit(
        lower_text("kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
                   " in s : f32[E, N, K]\n v = gemm(g, x)\n" +
                   outputs + "\n}"));
  };
  CHECK(count(text("out f : f32[E, N, K] = v"), "if (tile.depth == 0)") == 0);  // zero by itself
  CHECK(count(text("out f : f32[E, N, K] = v + s"), "if (tile.depth == 0)") == 1);
  const std::string own = text(
      "out f : f32[E, N, K] += v\n out u : f32[E, N, K] = s * 2\n out r : f32[E, K] += sum(s)\n"
      " out c : f32[E, K] += sum(v)\n out w : f32[E, N, K] += s");
  INFO(own);
  CHECK(count(own, "if (tile.depth == 0)") == 0);
  CHECK(count(own, "old_f.add(tile.depth != 0, value0, p.out_f") == 1);
  CHECK(count(own, "old_f.load(tile.depth != 0, p.out_f") == 1);
  CHECK(count(own, "old_w.add(true, value0, p.out_w") == 1);
  CHECK(count(own, "old_w.load(true, p.out_w") == 1);
  CHECK(count(own, "finish_columns<RowsPlan, void, f32, Reduction::sum, true") == 1);
  CHECK(count(own, "finish_columns<RowsPlan, DepthPlan, f32, Reduction::sum, true") == 1);
  CHECK(count(text("out f : f32[E, N, K] += v\n out w : f32[E, N, K] += s"), "skips_empty = false;") == 1);
}

TEST_CASE("halves that alternate in a weight with contiguous columns are told apart among the accumulators") {
  for (const int piece : {1, 8, 32}) {
    const std::string text = emit(lower_text(fmt::format(
        "kernel test {{\n dim E = 2, K = 64, I = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, 2*I]\n"
        " f, s = split(gemm(x, w), {})\n out y : bf16[M, I] = f * s\n}}",
        piece)));
    INFO(text);
    CHECK(count(text, "static constexpr bool interleaved = true;") == 1);
    CHECK(count(text, fmt::format("sums.straighten_halves<{}>(", piece)) == 1);
    CHECK(count(text, fmt::format("sums.half_at<{}>(", piece)) == 2);
    CHECK(count(text, "sums.at(") == 0);
    // A rolled loop moves on by a block of each half.
    CHECK((count(text, "sums.shift();") == 2 || count(text, "sums.shift();") == 0));
  }
}

TEST_CASE("a rolled loop fetches a block or moves all down, as the plan says") {
  const auto text = [](int depth) {
    return emit(lower_text(fmt::format(
        "kernel test {{\n dim E = 2, K = {}, I = 256\n group M by E\n group P = M align 128\n in x : bf16[M, K]\n"
        " in w : bf16[E, I, K]\n in pre : bf16[M, 2*I]\n in p : f32[M]\n a = gemm(x, w)\n f, s = split(pre)\n"
        " g = a * p * s * sigmoid(f)\n u = a * p * f * sigmoid(f)\n"
        " out y : mxfp8[M, 2*I] = join(g, u)\n out t : mxfp8[2*I, P] = join(g, u)\n}}",
        depth)));
  };
  CHECK(count(text(7168), "sums.take(block + 1);") == 1);
  CHECK(count(text(7168), "sums.shift();") == 0);
  CHECK(count(text(128), "sums.take(block + 1);") == 0);
  CHECK(count(text(128), "sums.shift();") == 1);
}

TEST_CASE("results of batches lie one behind the other, or in buffers of their own") {
  const std::string text = emit(lower_text(
      "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
      " v = gemm(g, x)\n out a : f32[E, N, K] += v\n out b : f32[E][N, K] = v\n out c : bf16[E, K, N] = v\n}"));
  CHECK(count(text, "old_a.add(tile.depth != 0, value0, p.out_a, p.pitch_a, rows_0, columns, columns.first, ") == 1);
  CHECK(count(text,
              "store_rows<f32>(value0, static_cast<void**>(p.out_b)[tile.group], p.pitch_b, rows_1, columns, "
              "columns.first)") == 1);
  CHECK(count(text,
              "store_transposed<bf16, false>(value0, p.out_c, p.pitch_c, rows_1, columns, tile.group * p.columns + "
              "columns.first)") == 1);
  CHECK(count(text, "LaneOf<RowOrder::natural>::now()") == 1);
  CHECK(count(text, "sums.straighten(") == 1);
}
