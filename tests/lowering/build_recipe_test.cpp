// The launch recipe of a plan: buffers, symbols, numbers and the parameter block. What the tensor maps bring in is
// proved in tile_boxes_test.cpp.
#include "compiler/lowering/build_recipe.h"

#include <fmt/format.h>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

using Numbers = std::map<std::string, int64_t>;

int64_t evaluate(const IntExpr& e, const Numbers& symbols) {
  INFO(e.text());
  const Result<int64_t> value = e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols.find(std::string(name));
    return at == symbols.end() ? std::nullopt : std::optional(at->second);
  });
  if (!value) FAIL(value.error().message);
  return *value;
}

const ParameterField& field(const KernelPlan& plan, std::string_view name) {
  for (const ParameterField& f : plan.recipe.steps[0].fields)
    if (f.name == name) return f;
  FAIL("no field " << name);
  return plan.recipe.steps[0].fields[0];
}

int64_t number(const KernelPlan& plan, std::string_view name, const Numbers& symbols) {
  return evaluate(field(plan, name).value, symbols);
}

const RecipeTensor& tensor(const KernelPlan& plan, std::string_view name) {
  const RecipeTensor* found = plan.recipe.find_tensor(name);
  INFO(name);
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("the recipe of every plan of every example is sound and survives its text form") {
  for (const std::string& path : spec_paths()) {
    const LoweredText result = lower_spec(path);
    for (const KernelPlan& plan : result.lowered.plans) {
      INFO(path << " " << lowering::schedule_name(plan.schedule));
      const Status sound = plan.recipe.validate();
      if (!sound) FAIL(sound.error().message);
      const Result<LaunchRecipe> read = LaunchRecipe::from_json(plan.recipe.to_json());
      if (!read) FAIL(read.error().message);
      CHECK(read->to_json() == plan.recipe.to_json());
      uint32_t end = 0;
      for (const ParameterField& f : plan.recipe.steps[0].fields) {
        CHECK(f.offset >= end);
        CHECK(f.offset % (f.kind == FieldKind::tensor_map ? 64 : f.size) == 0);
        end = f.offset + f.size;
      }
      CHECK(end <= plan.recipe.steps[0].parameter_bytes);
      CHECK(plan.recipe.steps[0].parameter_bytes - end < 64);
    }
  }
}

TEST_CASE("numbers of a ragged kernel with halves") {
  const LoweredText result = lower_text(
      halved_spec("in p : f32[M] = 1\nh = gemm(x, w)\nf, s = split(h)\nv = f * s * p\nout pre : bf16[M, 2*I] = h\n"
                  "out y : mxfp8[M, I] = v\nout yt : mxfp8[I, P] = v",
                  "E = 3, K = 72, I = 160", "group M by E counts i64\n group P = M align 128"),
      "pingpong 128x128");
  const KernelPlan& plan = result.plan();
  Numbers symbols{{"E", 3},           {"K", 72},           {"I", 160},
                  {"M", 1000},        {"sm_count", 132},   {"pre.stride0", 400},
                  {"y.stride0", 176}, {"yt.stride0", 1280}};
  CHECK(number(plan, "groups", symbols) == 3);
  CHECK(number(plan, "capacity", symbols) == 1000);
  CHECK(number(plan, "depth", symbols) == 72);
  CHECK(number(plan, "columns", symbols) == 160);
  CHECK(number(plan, "column_tiles", symbols) == 3);  // tiles of 64 columns of a half
  CHECK(number(plan, "b_group_rows", symbols) == 320);
  CHECK(number(plan, "pitch_pre", symbols) == 400);
  CHECK(number(plan, "pitch_y", symbols) == 176);
  CHECK(number(plan, "scale_pitch_y", symbols) == 5);
  CHECK(number(plan, "pitch_yt", symbols) == 1280);
  // P has room for M + E*127 rows, rounded down to 128.
  CHECK(number(plan, "scale_pitch_yt", symbols) == (1000 + 3 * 127) / 128 * 128 / 32);
  CHECK(evaluate(plan.recipe.steps[0].grid, symbols) == 3 * (8 + 3));
  symbols["sm_count"] = 20;
  CHECK(evaluate(plan.recipe.steps[0].grid, symbols) == 20);
  symbols["M"] = 0;
  CHECK(evaluate(plan.recipe.steps[0].grid, symbols) == 0);
  symbols["M"] = 2;  // at most one tile for each row
  CHECK(evaluate(plan.recipe.steps[0].grid, symbols) == 6);

  CHECK(field(plan, "group_sizes").tensor == "M.counts");
  CHECK(field(plan, "in_p").tensor == "p");
  CHECK(field(plan, "out_y").tensor == "y");
  CHECK(field(plan, "scales_y").tensor == "y.scale");
  CHECK(tensor(plan, "M.counts").storage == Storage::i64);
  CHECK(tensor(plan, "M.counts").group_align == 1);
  CHECK(plan.recipe.steps[0].entry == "kernel_test");
  CHECK(plan.recipe.steps[0].block == 384);
}

TEST_CASE("a kernel with interleaved halves counts weight rows in blocks of a half") {
  for (const char* piece : {", 1", ", 8", ", 32"}) {
    const LoweredText result =
        lower_text(halved_spec(fmt::format("f, s = split(gemm(x, w){})\nout y : bf16[M, I] = f * s", piece)));
    CHECK(number(result.plan(), "b_group_rows", {{"I", 128}}) == 128);
  }
  const LoweredText pieces = lower_text(halved_spec("f, s = split(gemm(x, w), 64)\nout y : bf16[M, I] = f * s"));
  CHECK(number(pieces.plan(), "b_group_rows", {{"I", 128}}) == 256);
}

TEST_CASE("a dense kernel") {
  const LoweredText result = lower_text(
      "kernel test {\n dim K = 64, N = 96\n dyn S\n param a = 2\n in x : bf16[S, K]\n in w : bf16[N, K]\n in r : "
      "e4m3[S, N]\n"
      " h = a * gemm(x, w)\n out y : bf16[S, N] = h + r\n out t : f16[N, S] = h\n}",
      "pingpong 128x128");
  const KernelPlan& plan = result.plan();
  const Numbers symbols{{"K", 64}, {"N", 96}, {"S", 300}, {"sm_count", 132}};
  CHECK(number(plan, "groups", symbols) == 1);
  CHECK(number(plan, "capacity", symbols) == 300);
  CHECK(evaluate(plan.recipe.steps[0].grid, symbols) == 3);
  CHECK(field(plan, "group_sizes").tensor.empty());
  CHECK(field(plan, "param_a").kind == FieldKind::param);
  const TensorMapRecipe& r = plan.recipe.maps[static_cast<size_t>(field(plan, "tile_input.0").index)];
  CHECK(r.tensor == "r");
  CHECK(r.type == TensorMapType::u8);
  CHECK(r.swizzle == Swizzle::b32);
  CHECK(r.box == std::vector<uint32_t>{32, 128});
}

TEST_CASE("alignments are those of the accesses") {
  const LoweredText result = lower_text(
      ragged_spec("in s : f32\nin r : bf16[M]\nin c : e4m3[E, N]\nin f : f32[M, N]\nh = gemm(x, w) + s + r + c + f\n"
                  "out a : e4m3[M, N] = h\nout b : f32[M, N] = h\nout c1 : bf16[N, M] = h\nout d : bf16[N, P] = h\nout "
                  "e : mxfp8[M, N] = h\n"
                  "out g : mxfp8[N, P] = h",
                  "E = 3, K = 64, N = 128", "group M by E\n group P = M align 128"),
      "pingpong 128x64");
  const std::map<std::string, int> expected = {{"M.ends", 4},
                                               {"x", 16},
                                               {"w", 16},
                                               {"s", 4},
                                               {"r", 2},
                                               {"c", 16},
                                               {"f", 16},  // loads of 16 bytes, or of
                                                           // one
                                               {"a", 8},
                                               {"b", 16},
                                               {"c1", 2},
                                               {"d", 8},
                                               {"e", 8},
                                               {"e.scale", 2},
                                               {"g", 4},
                                               {"g.scale", 4}};
  for (const auto& [name, alignment] : expected) {
    INFO(name);
    CHECK(tensor(result.plan(), name).alignment == alignment);
  }
  CHECK(tensor(result.plan(), "x").strided);
  CHECK(!tensor(result.plan(), "w").strided);
  CHECK(tensor(result.plan(), "f").strided);
  CHECK(tensor(result.plan(), "g").strided);
  CHECK(!tensor(result.plan(), "g.scale").strided);
}

TEST_CASE("an aligned M says so, and outputs over it may end anywhere") {
  const std::string dims = "E = 3, K = 64, N = 128", group = "group M by E align 64";
  const LoweredText result = lower_text(ragged_spec(
      "h = gemm(x, w)\nout y : mxfp8[M, N] = h\nout t : bf16[N, M] = h\nout c : mxfp8[N, M] = h", dims, group));
  CHECK(tensor(result.plan(), "M.ends").group_align == 64);
  // Row by row: the capacity may cut four rows that are stored together elsewhere.
  CHECK(tensor(result.plan(), "t").alignment == 2);
  CHECK(tensor(result.plan(), "c").alignment == 1);
}

TEST_CASE("an output called like another one's scales has a field of its own") {
  const LoweredText result = lower_text(ragged_spec(
      "h = gemm(x, w)\nout y : mxfp8[M, N] = h\nout y_scale : bf16[M, N] = h\nout pitch_y : bf16[M, N] = h"));
  CHECK(result.plan().recipe.validate());
}

TEST_CASE("batches, and results of groups, count their rows and columns") {
  const LoweredText batched = lower_text(
      "kernel test {\n dim K = 64, N = 96\n dyn B, S\n in a : bf16[B, S, K]\n in b : bf16[B, K, N]\n in r : f32[B, S]\n"
      " c = gemm(a, b) + r\n out c : bf16[B, S, N] = c\n out d : bf16[B, N, S] = c\n}",
      "pingpong 128x128");
  Numbers symbols{{"K", 64}, {"N", 96}, {"B", 5}, {"S", 300}, {"sm_count", 132}, {"c.stride1", 96}, {"d.stride1", 300}};
  CHECK(number(batched.plan(), "groups", symbols) == 5);
  CHECK(number(batched.plan(), "batch_rows", symbols) == 300);
  CHECK(number(batched.plan(), "capacity", symbols) == 1500);
  CHECK(number(batched.plan(), "all_rows", symbols) == 1500);
  CHECK(number(batched.plan(), "depth", symbols) == 64);
  CHECK(number(batched.plan(), "pitch_d", symbols) == 300);
  CHECK(evaluate(batched.plan().recipe.steps[0].grid, symbols) == 5 * 3);
  CHECK(field(batched.plan(), "group_sizes").tensor.empty());
  for (const char* name : {"a", "b", "c", "d", "r"}) CHECK(!tensor(batched.plan(), name).strided);

  const LoweredText wgrad = lower_text(
      "kernel test {\n dim E = 3, K = 64, N = 264\n group M by E counts\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
      " out w : f32[E, N, K] += gemm(g, x)\n}",
      "pingpong 128x128");
  symbols = {{"E", 3}, {"K", 64}, {"N", 264}, {"M", 1000}, {"sm_count", 132}, {"w.stride1", 64}};
  CHECK(number(wgrad.plan(), "groups", symbols) == 3);
  CHECK(number(wgrad.plan(), "capacity", symbols) == 1000);
  CHECK(number(wgrad.plan(), "rows", symbols) == 264);
  CHECK(number(wgrad.plan(), "row_tiles", symbols) == 3);
  CHECK(number(wgrad.plan(), "all_rows", symbols) == 3 * 264);
  CHECK(number(wgrad.plan(), "columns", symbols) == 64);
  CHECK(evaluate(wgrad.plan().recipe.steps[0].grid, symbols) == 9);
  symbols["M"] = 0;  // results of empty groups are written, too
  CHECK(evaluate(wgrad.plan().recipe.steps[0].grid, symbols) == 9);
  CHECK(field(wgrad.plan(), "group_sizes").tensor == "M.counts");
  CHECK(tensor(wgrad.plan(), "g").strided);
  CHECK(tensor(wgrad.plan(), "x").strided);
}

TEST_CASE("two segments are contracted one behind the other, in whole k-tiles") {
  const LoweredText result =
      lower_text(ragged_spec("in z : bf16[M, K]\nin v : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, w) + gemm(z, v)",
                             "E = 3, K = 72, N = 128"));
  CHECK(number(result.plan(), "depth", {{"K", 72}}) == 72);
  CHECK(number(result.plan(), "loop_depth", {{"K", 72}}) == 256);
}

TEST_CASE("weights of one buffer for each group have their maps in the workspace") {
  const LoweredText result = lower_text(
      "kernel test {\n dim E = 3, K = 64, I = 64\n group M by E\n in x : bf16[M, K]\n in w : bf16[E][2*I, K]\n"
      " f, s = split(gemm(x, w))\n y = f * s\n out y : bf16[M, I] = y\n out b : f32[E, I] = sum(y)\n}",
      "pingpong 128x128");
  const KernelPlan& plan = result.plan();
  const Numbers symbols{{"E", 3}, {"K", 64}, {"I", 64}, {"M", 1000}, {"sm_count", 132}};
  CHECK(evaluate(plan.region("weight maps").bytes, symbols) == 3 * 2 * 128);
  const int64_t offset = evaluate(plan.region("weight maps").offset, symbols);
  CHECK(evaluate(plan.region("partials b").offset, symbols) >= offset + 3 * 2 * 128);
  REQUIRE(plan.recipe.steps.size() == 3);  // of the maps, of the gemm, of the sums
  for (const ParameterField& f : plan.recipe.steps[1].fields) {
    CHECK(f.name != "b.0");
    if (f.name == "b_maps") CHECK(evaluate(f.value, symbols) == offset);
  }
  for (const ParameterField& f : plan.recipe.steps[0].fields) {
    if (f.name == "maps.1") CHECK(evaluate(f.value, symbols) == offset + 3 * 128);
    if (f.name == "byte_offset.1") CHECK(evaluate(f.value, symbols) == 64 * 64 * 2);
    if (f.name == "count.0") CHECK(evaluate(f.value, symbols) == 3);
  }
  CHECK(tensor(plan, "w").pointer_axes == 1);
}
