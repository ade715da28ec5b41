// Where partials lie in the workspace and in shared memory, and what the finishing launches are told.
#include <fmt/format.h>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/lowering/plan_reductions.h"
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

const RecipeStep& step(const KernelPlan& plan, std::string_view entry) {
  for (const RecipeStep& s : plan.recipe.steps)
    if (s.entry == entry) return s;
  FAIL("no launch " << entry);
  return plan.recipe.steps[0];
}

const ParameterField& field(const RecipeStep& step, std::string_view name) {
  for (const ParameterField& f : step.fields)
    if (f.name == name) return f;
  FAIL("no field " << name);
  return step.fields[0];
}

}  // namespace

TEST_CASE("regions hold the partials of the most tiles, and launches are told where they lie") {
  const std::string spec = halved_spec(
      "h = gemm(x, w)\nf, s = split(h)\nout y : bf16[M, I] = f * s\nout r : f32[M] = sum(h)\n"
      "out c : bf16[E, 2*I] += sum(h)\nout pitch_c : f32[I] = sum(f * s)\nout t : f32[E] = amax(h)",
      "E = 3, K = 72, I = 72", "group M by E counts i64");
  const LoweredText result = lower_text(spec);
  const Numbers symbols{{"E", 3}, {"K", 72}, {"I", 72}, {"M", 1000}, {"sm_count", 132}, {"y.stride0", 80}};
  std::set<std::string> schedules;
  for (const KernelPlan& plan : result.lowered.plans) {
    INFO(lowering::schedule_name(plan.schedule));
    CHECK(lowering::verify(plan).empty());
    const Status sound = plan.recipe.validate();
    if (!sound) FAIL(sound.error().message);
    // 8 tiles of rows, and one more for each group; 3 blocks of columns.
    CHECK(evaluate(lowering::most_row_tiles(result.lowered.graph, plan), symbols) == 11);
    const std::map<std::string, std::pair<int64_t, int64_t>> count_and_pitch = {
        {"r", {3, 1000}}, {"c", {11, 144}}, {"pitch_c", {11, 72}}, {"t", {11, 3}}};
    const RecipeStep& main = step(plan, "kernel_test");
    int64_t end = 0;
    for (const auto& [name, shape] : count_and_pitch) {
      const lowering::WorkspaceRegion& region = plan.region("partials " + name);
      const int64_t offset = evaluate(region.offset, symbols);
      CHECK(offset % workspace_alignment == 0);
      CHECK(evaluate(region.bytes, symbols) >= shape.first * shape.second * 4);
      end = std::max(end, offset + evaluate(region.bytes, symbols));
      CHECK(evaluate(field(main, "partial_pitch_" + name).value, symbols) == shape.second);
      CHECK(evaluate(field(main, "partials_" + name).value, symbols) == offset);
      const RecipeStep& finish = step(plan, "kernel_test_finish_" + name);
      CHECK(field(finish, "partials").tensor == workspace_name);
      CHECK(evaluate(field(finish, "partials").value, symbols) == offset);
      CHECK(evaluate(field(finish, "partial_pitch").value, symbols) == shape.second);
      CHECK(field(finish, "out").tensor == name);
      CHECK(field(finish, "group_sizes").tensor == "M.counts");
      CHECK(evaluate(field(finish, "capacity").value, symbols) == 1000);
    }
    for (const lowering::WorkspaceRegion& a : plan.workspace)
      for (const lowering::WorkspaceRegion& b : plan.workspace)
        if (a.name != b.name) CHECK(evaluate(a.offset, symbols) != evaluate(b.offset, symbols));
    CHECK(evaluate(plan.recipe.workspace_bytes, symbols) >= end);
    CHECK(evaluate(step(plan, "kernel_test_finish_r").grid, symbols) == 11);
    CHECK(evaluate(step(plan, "kernel_test_finish_c").grid, symbols) == 3 * 1);
    CHECK(evaluate(step(plan, "kernel_test_finish_pitch_c").grid, symbols) == 3);
    CHECK(evaluate(step(plan, "kernel_test_finish_t").grid, symbols) == 3);
    // The warps' places in shared memory are apart.
    std::vector<std::pair<int, int>> scratch;
    for (const lowering::Sink& sink : plan.epilogue.sinks) {
      if (sink.kind == lowering::SinkKind::reduce_columns)
        scratch.push_back({sink.scratch, static_cast<int>(sink.values.size()) * plan.part_tile() * 16});
      if (sink.kind == lowering::SinkKind::reduce_tiles) scratch.push_back({sink.scratch, plan.part_tile() / 2});
    }
    REQUIRE(scratch.size() == 3);
    std::sort(scratch.begin(), scratch.end());
    for (size_t i = 0; i < 3; ++i) {
      CHECK(scratch[i].first % 16 == 0);
      CHECK(scratch[i].first + scratch[i].second <= (i == 2 ? plan.scratch_bytes : scratch[i + 1].first));
    }
  }
  CHECK(result.lowered.plans.size() > 1);
}

TEST_CASE("tiles of gaps are counted among the most") {
  const std::string body = "h = gemm(x, w)\nout s : f32[E, N] = sum(h)\nout y : bf16[N, P] = h";
  auto most = [&](const char* groups, int64_t rows) {
    const LoweredText result = lower_text(ragged_spec(body, "E = 3, K = 64, N = 64", groups));
    return evaluate(lowering::most_row_tiles(result.lowered.graph, result.plan()), {{"E", 3}, {"M", rows}});
  };
  CHECK(most("group M by E\n group P = M align 128", 1000) == 11);
  CHECK(most("group M by E\n group P = M align 128", 2) == 2);
  // A group of one row has two tiles.
  CHECK(most("group M by E\n group P = M align 256", 2) >= 4);
  CHECK(most("group M by E\n group P = M align 256", 3) >= 6);
}

TEST_CASE("names of outputs do not meet in the parameter block") {
  const LoweredText result = lower_text(ragged_spec(
      "h = gemm(x, w)\nout y : f32[M] = sum(h)\nout pitch_y : f32[E, N] = sum(h)\nout y_0 : f32[E] = sum(h)"));
  CHECK(result.plan().recipe.validate());
}
