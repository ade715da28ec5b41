// Which schedules a kernel can run under, and in which order they are tried.
#include "compiler/lowering/choose_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

std::vector<std::string> names(const LoweredText& result) {
  std::vector<std::string> list;
  for (const KernelPlan& plan : result.lowered.plans) list.push_back(lowering::schedule_name(plan.schedule));
  return list;
}

// What must hold of the plans of any kernel.
void check_plans(const LoweredText& result) {
  INFO(result.diagnostics.print());
  REQUIRE(!result.lowered.plans.empty());
  double cost = 0;
  for (const KernelPlan& plan : result.lowered.plans) {
    INFO(lowering::print(result.lowered.graph, plan));
    CHECK(lowering::verify(plan).empty());
    CHECK(plan.recipe.validate());
    CHECK(plan.cost >= cost);
    cost = plan.cost;
    CHECK(plan.shared_bytes <= plan.target.shared_bytes_per_block);
    CHECK(plan.recipe.steps[0].shared_bytes == static_cast<uint32_t>(plan.shared_bytes));
    CHECK(plan.schedule.stages >= 2);
    CHECK(plan.part_tile() * plan.gemm.parts == plan.schedule.tile_columns);
    CHECK(lowering::print(result.lowered.graph, plan).find("stages " + std::to_string(plan.schedule.stages)) !=
          std::string::npos);
  }
  const std::vector<std::string> list = names(result);
  CHECK(std::set<std::string>(list.begin(), list.end()).size() == list.size());
}

}  // namespace

TEST_CASE("every example spec has a plan to fall back to") {
  for (const std::string& path : spec_paths()) {
    INFO(path);
    const LoweredText result = lower_spec(path);
    check_plans(result);
    CHECK(result.lowered.plans.size() >= 2);
    // Equal input, equal text.
    const LoweredText again = lower_spec(path);
    for (size_t i = 0; i < result.lowered.plans.size(); ++i)
      CHECK(lowering::print(result.lowered.graph, result.lowered.plans[i]) ==
            lowering::print(again.lowered.graph, again.lowered.plans[i]));
  }
}

TEST_CASE("a schedule is chosen by its name, and an unknown one is an error that lists the names") {
  const std::string spec = ragged_spec("out y : bf16[M, N] = gemm(x, w)");
  for (const std::string& name : names(lower_text(spec)))
    CHECK(names(lower_text(spec, name)) == std::vector<std::string>{name});
  const LoweredText result = lower_text(spec, "pingpong 7x7");
  CHECK(result.lowered.plans.empty());
  REQUIRE(result.diagnostics.all().size() == 1);
  const std::string& message = result.diagnostics.all()[0].message;
  CHECK(message.find("'pingpong 7x7'") != std::string::npos);
  for (const std::string& name : names(lower_text(spec))) CHECK(message.find(name) != std::string::npos);
}

TEST_CASE("columns and depths of any multiple of 8, tiny and huge") {
  for (const int64_t columns : {8, 24, 40, 200, 2880, 7160, 262144})
    for (const int64_t depth : {8, 72, 7168, 65536}) {
      INFO(columns << " " << depth);
      const LoweredText result = lower_text(
          ragged_spec("out y : bf16[M, N] = gemm(x, w)", fmt::format("E = 128, K = {}, N = {}", depth, columns)));
      check_plans(result);
      CHECK(result.lowered.plans.size() == 4);
      CHECK(result.plan().checked_pairs == (columns % 32 != 0));
      check_plans(lower_text(halved_spec("f, s = split(gemm(x, w))\nout y : bf16[M, I] = f * s",
                                         fmt::format("E = 128, K = {}, I = {}", depth, columns))));
    }
}

TEST_CASE("what a tile wastes at the right edge counts: narrow outputs take narrow tiles") {
  auto first = [](int64_t columns) {
    return lower_text(ragged_spec("out y : bf16[M, N] = gemm(x, w)", fmt::format("E = 8, K = 4096, N = {}", columns)))
        .plan()
        .schedule;
  };
  CHECK(first(64).tile_columns == 64);
  CHECK(!first(128).cooperative);
  CHECK(first(128).tile_columns == 128);
  CHECK(first(192).tile_columns * first(192).slices() == 192);
}

TEST_CASE("pieces of a split limit the tiles to those that lie in one piece") {
  auto schedules = [](int64_t piece) {
    std::vector<std::string> list =
        names(lower_text(halved_spec(fmt::format("f, s = split(gemm(x, w), {})\nout y : bf16[M, I] = f * s", piece),
                                     fmt::format("E = 2, K = 64, I = {}", 2 * piece))));
    std::sort(list.begin(), list.end());
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(schedules(64) == List{"pingpong 128x128", "pingpong 128x64"});
  CHECK(schedules(96) == List{"pingpong 128x192", "pingpong 128x64"});
  CHECK(schedules(128) == List{"cooperative 128x256", "pingpong 128x128", "pingpong 128x64"});
  CHECK(schedules(32).size() == 4);
  const LoweredText none = lower_text(halved_spec("f, s = split(gemm(x, w), 16)\nout y : bf16[M, I] = f * s"));
  CHECK(none.lowered.plans.empty());
  CHECK(none.diagnostics.print().find("split in pieces of 16") != std::string::npos);
}

TEST_CASE("full-tile inputs take stages, then leave no plan, and the error names the bytes") {
  std::string declared, sum = "gemm(x, w)";
  int stages = 9;
  bool refused = false;
  for (int count = 1; count <= 8; ++count) {
    declared += fmt::format("in r{} : f32[M, N]\n", count);
    sum += fmt::format(" + r{}", count);
    const LoweredText result = lower_text(ragged_spec(declared + "out y : bf16[M, N] = " + sum));
    if (result.lowered.plans.empty()) {
      refused = true;
      CHECK(result.diagnostics.print().find(fmt::format("{} bytes for each block", count * 16384)) !=
            std::string::npos);
      continue;
    }
    CHECK(!refused);
    check_plans(result);
    CHECK(result.plan().slot_bytes == count * 16384);
    for (const KernelPlan& plan : result.lowered.plans)
      if (lowering::schedule_name(plan.schedule) == "pingpong 128x64") {
        CHECK(plan.schedule.stages <= stages);
        stages = plan.schedule.stages;
      }
  }
  CHECK(refused);
}

TEST_CASE("scale bytes are stored together where they are neighbours under the schedule") {
  auto gathered = [](const std::string& spec, std::string_view schedule) {
    std::string text;
    const LoweredText result = lower_text(spec, schedule);
    for (const lowering::Sink& sink : result.plan().epilogue.sinks) text += fmt::format("{} ", sink.gathered_scales);
    return text;
  };
  const std::string aligned = "group M by E\n group P = M align 128",
                    aligned_32 = "group M by E\n group P = M align 32";
  const std::string both = "h = gemm(x, w)\nout a : mxfp8[M, N] = h\nout b : mxfp8[N, P] = h";
  CHECK(gathered(ragged_spec(both, "E = 2, K = 64, N = 128", aligned), "pingpong 128x128") == "4 4 ");
  CHECK(gathered(ragged_spec(both, "E = 2, K = 64, N = 128", aligned), "pingpong 128x192") == "2 4 ");
  CHECK(gathered(ragged_spec(both, "E = 2, K = 64, N = 128", aligned), "pingpong 128x64") == "2 4 ");
  CHECK(gathered(ragged_spec(both, "E = 2, K = 64, N = 96", aligned_32), "pingpong 128x128") == "1 1 ");
  CHECK(gathered(ragged_spec(both, "E = 2, K = 64, N = 40", aligned_32), "pingpong 128x128") == "1 1 ");
  // The capacity may cut the last group's gap where M itself is aligned: not all four blocks of its tile need exist.
  CHECK(gathered(ragged_spec("out b : mxfp8[N, M] = gemm(x, w)", "E = 2, K = 64, N = 128", "group M by E align 128"),
                 "pingpong 128x128") == "1 ");
  // Halves dealt out in blocks: neighbours belong to different halves.
  const std::string halves =
      "h = gemm(x, w)\nf, s = split(h{})\nout a : mxfp8[M, 2*I] = h\nout b : mxfp8[M, I] = f * s";
  CHECK(gathered(halved_spec(fmt::format(fmt::runtime(halves), "")), "pingpong 128x128") == "2 2 ");
  CHECK(gathered(halved_spec(fmt::format(fmt::runtime(halves), ", 32")), "pingpong 128x128") == "1 2 ");
}

TEST_CASE("the backward of a gated activation takes the widest tiles that will not spill") {
  for (const int64_t depth : {2048, 2880, 7168})
    for (const int64_t columns : {2048, 2880})
      for (const char* deal : {"", ", 8", ", 32"}) {
        INFO(depth << " " << columns << deal);
        const LoweredText result =
            lower_text(backward_spec(deal, fmt::format("E = 8, K = {}, I = {}", depth, columns)));
        check_plans(result);
        const std::vector<std::string> list = names(result);
        CHECK(list.front() == "pingpong 128x128");
        // There is one with wider tiles, which comes behind all that are expected to hold their registers.
        CHECK(std::find(list.begin(), list.end(), "pingpong 128x192") > list.begin() + 1);
      }
}

TEST_CASE("plain kernels take wide tiles, whichever way the operands lie") {
  for (const char* weight : {"E, N, K", "E, K, N"}) {
    const LoweredText result =
        lower_text(fmt::format("kernel test {{\n dim E = 8, K = 4096, N = 3072\n group M by E\n in x : bf16[M, K]\n"
                               " in w : bf16[{}]\n out y : bf16[M, N] = gemm(x, w)\n}}",
                               weight));
    check_plans(result);
    CHECK(names(result).front() == "pingpong 128x192");
  }
  const LoweredText wgrad = lower_text(
      "kernel test {\n dim E = 8, K = 3072, N = 3072\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
      " out w : f32[E, N, K] += gemm(g, x)\n}");
  check_plans(wgrad);
  CHECK(wgrad.lowered.plans.size() == 4);
}

TEST_CASE("columns that are contiguous in memory are brought in slabs of 64, which a tile's part must have whole") {
  auto schedules = [](const std::string& split) {
    std::vector<std::string> list = names(lower_text(
        "kernel test {\n dim E = 2, K = 64, I = 128\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, 2*I]\n" +
        split + "\n}"));
    std::sort(list.begin(), list.end());
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(schedules("out y : bf16[M, 2*I] = gemm(x, w)").size() == 4);
  for (const char* deal : {"", ", 64"})
    CHECK(schedules(fmt::format("f, s = split(gemm(x, w){})\nout y : bf16[M, I] = f * s", deal)) ==
          (*deal ? List{"pingpong 128x128"} : List{"cooperative 128x256", "pingpong 128x128"}));
}
