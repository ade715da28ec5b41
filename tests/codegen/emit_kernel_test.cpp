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
  TensorMap a;
  TensorMap a_checked;
  TensorMap b[2];
  TensorMap tile_input[2];
  void* group_sizes;
  void* in_b;
  void* out_y;
  void* scales_y;
  int groups;
  int capacity;
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
  CHECK(count(text, " = value_1(") == 1);
  CHECK(count(text, "store_rows<bf16>(") == 1);
  CHECK(count(text, "store_rows_mx<e4m3>(") == 1);
  CHECK(count(text, "store_transposed_mx<e4m3, true>(") == 1);
  CHECK(count(text, "store_rows<f32>(") == 1);
  // Rows of the gap are cleared for the value that reaches it, not for the other.
  CHECK(count(text, "clear_missing_rows(") == 1);
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
