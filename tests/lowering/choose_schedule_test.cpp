// Which schedules a kernel can run under, and in which order they are tried.
#include "compiler/lowering/choose_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "compiler/lowering/plan_cost.h"
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
    CHECK(std::any_of(plan.recipe.steps.begin(), plan.recipe.steps.end(), [&](const RecipeStep& step) {
      return step.shared_bytes == static_cast<uint32_t>(plan.shared_bytes);
    }));
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
    CHECK(result.lowered.plans.size() <= lowering::most_plans_unasked);
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
  const size_t all = lower_all(resolve_text(spec, {})).lowered.plans.size();
  CHECK(message.find(fmt::format("({} in all: epifuse explain --all-plans lists them)", all)) != std::string::npos);
}

TEST_CASE("a name that is refused has a reason, and is cut where it is long") {
  const std::string gemm = ragged_spec("out y : bf16[M, N] = gemm(x, w)");
  const std::string pass = "kernel k {\n dim N = 64\n dyn T\n in x : f32[T, N]\n out y : f32[T, N] = x\n}\n";
  // One that only the general launches compute.
  const std::string sum = "kernel k {\n dim N = 64\n dyn T\n in x : f32[T, N]\n out y : f32[N] = sum(x)\n}\n";
  const auto why = [](const std::string& text, const std::string& name) {
    const LoweredText result = lower_text(text, name);
    CHECK(result.lowered.plans.empty());
    REQUIRE(result.diagnostics.all().size() == 1);
    const std::string message = result.diagnostics.all()[0].message;
    const size_t from = message.find(", because "), to = message.find("; those that are tried unasked");
    REQUIRE(from != std::string::npos);
    REQUIRE(to != std::string::npos);
    return message.substr(from + 10, to - from - 10);
  };
  const std::string no_name = why(gemm, "fast");
  CHECK(no_name.starts_with("it is no name: there are 'pingpong 128x192'"));
  for (const char* name : {"pingpong 128x192 quick", "cooperative 128x65", "pass"}) CHECK(why(gemm, name) == no_name);
  CHECK(why(pass, "fast") == no_name);
  CHECK(why(gemm, "pointwise") == "it is one of a kernel without gemm");
  CHECK(why(gemm, "pass 128x64") == "it is one of a kernel without gemm");
  CHECK(why(pass, "pingpong 128x128") == "it is one of a kernel with gemm");
  CHECK(why(pass, "pass 128x32") == "it has no pass over such tiles");
  CHECK(why(sum, "pass 128x64") == "it has no pass over such tiles");
  CHECK(why(gemm, "pingpong 128x512") == "there are no such tiles");
  const LoweredText result = lower_text(gemm, std::string(500, 'x'));
  CHECK(result.diagnostics.all().at(0).message.starts_with("no plan '" + std::string(60, 'x') + "…' for kernel"));
}

TEST_CASE("columns and depths of any multiple of 8, tiny and huge") {
  for (const int64_t columns : {8, 24, 40, 200, 2880, 7160, 262144})
    for (const int64_t depth : {8, 72, 7168, 65536}) {
      INFO(columns << " " << depth);
      const LoweredText result = lower_text(
          ragged_spec("out y : bf16[M, N] = gemm(x, w)", fmt::format("E = 128, K = {}, N = {}", depth, columns)));
      check_plans(result);
      CHECK(result.lowered.plans.size() >= 4);
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
  CHECK(192 % (first(192).tile_columns * first(192).slices()) == 0);
}

TEST_CASE("pieces of a split limit the tiles to those that lie in one piece") {
  auto schedules = [](int64_t piece) {
    std::vector<std::string> list =
        names(lower_tiles(halved_spec(fmt::format("f, s = split(gemm(x, w), {})\nout y : bf16[M, I] = f * s", piece),
                                      fmt::format("E = 2, K = 64, I = {}", 2 * piece))));
    std::sort(list.begin(), list.end());
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(schedules(64) == List{"cooperative 128x128", "pingpong 128x128", "pingpong 128x64"});
  CHECK(schedules(96) == List{"pingpong 128x192", "pingpong 128x64"});
  CHECK(schedules(128) == List{"cooperative 128x128", "cooperative 128x256", "pingpong 128x128", "pingpong 128x64"});
  // Those that two parts of whole blocks can have.
  CHECK(schedules(32) == List{"cooperative 128x128", "cooperative 128x256", "cooperative 128x384", "pingpong 128x128",
                              "pingpong 128x192", "pingpong 128x64"});
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

TEST_CASE("long epilogues fetch accumulators by branches where their main loop hides them") {
  const auto fetches = [](int depth, std::string_view tile) {
    const LoweredText result =
        lower_all(resolve_text(backward_spec("", fmt::format("E = 8, K = {}, I = 2880", depth))));
    for (const KernelPlan& plan : result.lowered.plans)
      if (lowering::schedule_name(plan.schedule) == tile) return plan.schedule.takes_blocks;
    FAIL(tile);
    return false;
  };
  CHECK(fetches(2880, "pingpong 128x128"));
  CHECK(!fetches(1024, "pingpong 128x128"));  // the epilogue takes longer
  CHECK(!fetches(2880, "pingpong 128x192"));  // accumulators leave no register
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
  CHECK(wgrad.lowered.plans.size() >= 4);
}

TEST_CASE(
    "columns that are contiguous in memory are brought in slabs of 64, whole where another part lies behind them") {
  auto schedules = [](const std::string& split) {
    std::vector<std::string> list = names(lower_tiles(
        "kernel test {\n dim E = 2, K = 64, I = 128\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, 2*I]\n" +
        split + "\n}"));
    std::sort(list.begin(), list.end());
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(schedules("out y : bf16[M, 2*I] = gemm(x, w)") ==
        List{"cooperative 128x128", "cooperative 128x192", "cooperative 128x256", "cooperative 128x320",
             "cooperative 128x384", "pingpong 128x128", "pingpong 128x160", "pingpong 128x192", "pingpong 128x64",
             "pingpong 128x96"});
  for (const char* deal : {"", ", 64"})
    CHECK(schedules(fmt::format("f, s = split(gemm(x, w){})\nout y : bf16[M, I] = f * s", deal)) ==
          (*deal ? List{"pingpong 128x128"} : List{"cooperative 128x256", "pingpong 128x128"}));
}

TEST_CASE("tiles that split the lines of a weight are taken where its rows split them anyway") {
  const auto first = [](int columns) {
    return names(lower_tiles(fmt::format(
        "kernel test {{\n dim E = 16, K = 2880, N = {}\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, N]\n"
        " out y : bf16[M, N] = gemm(x, w) * 2\n}}",
        columns)))[0];
  };
  CHECK(first(1440) == "pingpong 128x160");  // rows of 22.5 lines
  CHECK(first(5 * 64) != "pingpong 128x160");
  CHECK(first(5 * 64 + 32 + 128) == "pingpong 128x160");
}

TEST_CASE("weights whose rows begin between lines are brought for two row tiles at once, where groups have many") {
  const auto order = [](int groups, int depth, int columns, const std::string& weight = "w : bf16[E, K, N]") {
    return lower_text(
               fmt::format("kernel test {{\n dim E = {}, K = {}, N = {}\n group M by E\n in x : bf16[M, K]\n in {}\n"
                           " out y : bf16[M, N] = gemm(x, w) * 2\n}}",
                           groups, depth, columns, weight))
        .plan()
        .schedule;
  };
  CHECK(order(16, 2880, 1440).pairs);
  const std::vector<std::string> tried =
      names(lower_text("kernel test {\n dim E = 16, K = 2880, N = 1440\n group M by E\n in x : bf16[M, K]\n"
                       " in w : bf16[E, K, N]\n out y : bf16[M, N] = gemm(x, w) * 2\n}"));
  CHECK(tried[0] == "pingpong 128x160 pairs");
  CHECK(tried[1] == "pingpong 128x160");  // which takes fewer registers
  CHECK(tried.back() == "pingpong 128x64");
  CHECK(order(32, 2880, 1440).pairs);
  CHECK(!order(64, 2880, 1440).pairs);                       // 512 rows of each, as far as the planner knows
  CHECK(!order(16, 2880, 2880).pairs);                       // 45 lines
  CHECK(!order(16, 2880, 1472).pairs);                       // 23 lines, of which tiles take halves
  CHECK(!order(16, 1440, 2880, "w : bf16[E, N, K]").pairs);  // K-major: it gains nothing
}

TEST_CASE("outputs that are added to: wide tiles where the products take long, narrow ones where memory does") {
  const auto first = [](int groups, int columns = 2880) {
    return names(
        lower_text(fmt::format("kernel test {{\n dim E = {}, K = 5760, N = {}\n group M by E\n"
                               " in g : bf16[M, K]\n in x : bf16[M, N]\n out w : f32[E, K, N] += gemm(g, x)\n}}",
                               groups, columns)))[0];
  };
  CHECK(first(8, 4096) == "pingpong 128x192");  // though 22 tiles of 192 reach over it
  CHECK(first(16) == "pingpong 128x192");
  // There, tiles are dealt out too, over whole rows of the output.
  CHECK(first(64) == "pingpong 128x192 band 15 dynamic");
  CHECK(first(128) == "pingpong 128x128 band 23 dynamic");
  CHECK(first(128, 128) == "pingpong 128x128 dynamic");  // a band is never narrower than usual
}

TEST_CASE("tiles are dealt out by a counter where memory is the limit") {
  const auto first = [](const std::string& dims, const std::string& body) {
    const LoweredText result = lower_text("kernel test {\n dim " + dims + "\n group M by E\n" + body + "\n}");
    check_plans(result);
    return result.lowered.plans.at(0).schedule;
  };
  const std::string product = " in x : bf16[M, K]\n in w : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x, w)";
  // The groups' weights: how many rows share each of them.
  CHECK(!first("E = 16, K = 2880, N = 5760", product).dynamic);
  CHECK(!first("E = 64, K = 2880, N = 5760", product).dynamic);
  CHECK(first("E = 128, K = 2880, N = 5760", product).dynamic);
  CHECK(first("E = 128, K = 2880, N = 5760", product).band == 8);
  // What goes through the epilogue.
  const std::string residual =
      " in x : bf16[M, K]\n in w : bf16[E, N, K]\n in r : f32[M, N]\n out y : f32[M, N] = r + gemm(x, w)";
  CHECK(!first("E = 8, K = 4096, N = 4096", residual).dynamic);
  CHECK(first("E = 8, K = 512, N = 4096", residual).dynamic);
  CHECK(!first("E = 8, K = 512, N = 4096", product).dynamic);
  // A few waves are nothing to deal out.
  CHECK(!first("E = 128, K = 2880, N = 128", product).dynamic);
  const LoweredText small = lower_text(
      "kernel test {\n dim M = 128, K = 2880, N = 5760\n in x : bf16[M, K]\n in w : bf16[N, K]\n"
      " out y : bf16[M, N] = gemm(x, w)\n}");
  CHECK(!small.plan().schedule.dynamic);
}

namespace {

// The example specs, and shapes of a mixture of experts as they are trained.
std::vector<LoweredText> all_of_real_shapes() {
  std::vector<LoweredText> list;
  auto add = [&](const std::string& text) { list.push_back(lower_all(resolve_text(text))); };
  for (const auto& [depth, columns] : {std::pair{7168, 4096}, {2048, 7168}, {2880, 5760}}) {
    const std::string dims = fmt::format("E = 8, K = {}, N = {}, I = {}", depth, columns, columns / 2);
    const std::string head = "kernel test {\n dim " + dims + "\n group M by E\n group P = M align 128\n";
    add(head + "in x : bf16[M, K]\n in w : bf16[E, N, K]\n out y : bf16[M, N] = gemm(x, w)\n}");
    add(head +
        "in x : bf16[M, K]\n in w : bf16[E, 2*I, K]\n in p : f32[M]\n g, u = split(gemm(x, w))\n"
        " a = g * sigmoid(g) * u * p\n out y : mxfp8[M, I] = a\n out t : mxfp8[I, P] = a\n}");
    add(head + "in x : bf16[M, N]\n in g : bf16[M, K]\n out w : f32[E, N, K] += gemm(x, g)\n}");
    list.push_back(
        lower_all(resolve_text(backward_spec("", fmt::format("E = 8, K = {}, I = {}", depth, columns / 2)))));
  }
  return list;
}

}  // namespace

TEST_CASE("a tuner has at least 24 plans to choose from, each sound, by its own name, and with its own launch") {
  for (const LoweredText& result : all_of_real_shapes()) {
    check_plans(result);
    CHECK(result.lowered.plans.size() >= 24);
    std::set<std::string> texts;
    for (const KernelPlan& plan : result.lowered.plans) {
      texts.insert(lowering::print(result.lowered.graph, plan));
      const lowering::Schedule& s = plan.schedule;
      CHECK(s.stages <= s.usual_stages);
      // By its name alone the same plan is made.
      if (s.band != 8) continue;
      const std::string name = lowering::schedule_name(s);
      const LoweredText again = lower_graph(result.lowered.graph, name);
      REQUIRE(names(again) == std::vector<std::string>{name});
      CHECK(lowering::print(result.lowered.graph, plan) == lowering::print(result.lowered.graph, again.plan()));
    }
    CHECK(texts.size() == result.lowered.plans.size());
    // What is tried without being told is among them, but for the way out of a spill.
    const std::vector<std::string> all = names(result);
    for (const std::string& name : names(lower_graph(result.lowered.graph)))
      CHECK((name.ends_with(" separate") || std::count(all.begin(), all.end(), name) == 1));
  }
}

TEST_CASE("bands wider than the matrix are no plans of their own") {
  auto bands = [](int64_t columns) {
    std::set<int> found;
    const LoweredText result = lower_all(
        resolve_text(ragged_spec("out y : bf16[M, N] = gemm(x, w)", fmt::format("E = 8, K = 4096, N = {}", columns))));
    for (const KernelPlan& plan : result.lowered.plans)
      if (plan.schedule.tile_columns == 128 && !plan.schedule.cooperative) found.insert(plan.schedule.band);
    return found;
  };
  CHECK(bands(128) == std::set{8});
  CHECK(bands(3 * 128) == std::set{2, 8});
  CHECK(bands(8 * 128) == std::set{2, 4, 8});
  CHECK(bands(9 * 128) == std::set{2, 4, 8, 16});
}

TEST_CASE("a name may ask for what differs from the planner's choice, and is refused with the reason") {
  const std::string spec = ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 8, K = 4096, N = 4096");
  auto plan = [&](std::string_view name) { return lower_text(spec, name).plan(); };
  CHECK(plan("pingpong 128x160").schedule.tile_columns == 160);
  CHECK(plan("pingpong 128x192 stages 4").schedule.stages == 4);
  CHECK(plan("pingpong 128x128 stages 7").schedule.stages == 7);
  CHECK(plan("cooperative 128x256 band 16").schedule.band == 16);
  const KernelPlan dynamic = plan("pingpong 128x128 band 4 dynamic");
  CHECK(dynamic.schedule.dynamic);
  CHECK(dynamic.schedule.band == 4);
  const KernelPlan pairs = plan("cooperative 128x256 pairs");
  CHECK(pairs.schedule.pairs);
  CHECK(pairs.recipe.steps.at(0).grid.text() ==
        "min(max(ceil_div(sm_count - 1, 2), 1), min(M, ceil_div(M, 128) + E) * ceil_div(N, 256)) * 2");
  // The planner's own choice, spelt out, is the plan of the short name.
  CHECK(lowering::schedule_name(lower_text(spec, "pingpong 128x192 stages 5").lowered.plans.at(0).schedule) ==
        "pingpong 128x192");

  auto refusal = [](const std::string& text, std::string_view name) {
    const LoweredText result = lower_text(text, name);
    CHECK(result.lowered.plans.empty());
    return result.diagnostics.print();
  };
  CHECK(refusal(spec, "pingpong 128x256").find("there are no such tiles") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x128 stages 8").find("8 stages do not fit into 232448 bytes") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x128 stages 1").find("a ring has 2 to 16 stages") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x128 stages 2000000000").find("a ring has 2 to 16 stages") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x128 band 2000").find("at most 1024 column tiles") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x64 dynamic pairs").find("one by one, and not in pairs") != std::string::npos);
  CHECK(refusal(ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 8, K = 4096, N = 4104"), "pingpong 128x64 pairs")
            .find("rows of the weight that are no multiple of 32") != std::string::npos);
  CHECK(refusal("kernel test {\n dim E = 8, K = 576, N = 256\n group M by E\n in g : bf16[M, K]\n in x : bf16[M, N]\n"
                " out w : f32[E, K, N] += gemm(g, x)\n}",
                "pingpong 128x64 pairs")
            .find("a contraction in groups or batches has no pairs") != std::string::npos);
  CHECK(refusal(spec, "pingpong 128x64 separate").find("no values share operations") != std::string::npos);
  CHECK(refusal(halved_spec("f, s = split(gemm(x, w))\nout y : bf16[M, I] = f * s"), "pingpong 128x96")
            .find("no whole blocks of 32") != std::string::npos);
  CHECK(refusal(spec, "pointwise").find("no plan 'pointwise'") != std::string::npos);
}

TEST_CASE("a preferred plan goes first, the planner's own behind it, none twice") {
  const ir::Graph graph = resolve_text(ragged_spec("out y : bf16[M, N] = gemm(x, w)", "E = 8, K = 4096, N = 4096"));
  auto order = [&](std::string_view first) {
    LoweredText result;
    result.lowered = lowering::lower(graph, Target{}, {.first = first}, result.diagnostics);
    CHECK(result.diagnostics.all().empty());
    CHECK(result.lowered.has_preferred == (names(result).front() == first));
    CHECK((result.lowered.has_preferred || first.empty()) == result.lowered.why_not_preferred.empty());
    return names(result);
  };
  const std::vector<std::string> own = order("");
  std::vector<std::string> wanted = own;
  wanted.insert(wanted.begin(), "pingpong 128x160 stages 4 dynamic");
  CHECK(order("pingpong 128x160 stages 4 dynamic") == wanted);
  wanted = own;
  std::rotate(wanted.begin(), wanted.begin() + 2, wanted.begin() + 3);
  CHECK(order(own[2]) == wanted);
  // What the kernel cannot run under changes nothing.
  CHECK(order("pingpong 128x512") == own);
  CHECK(order("nonsense") == own);
  // Without gemm.
  const ir::Graph pass = resolve_text(
      "kernel test {\n dim N = 128\n group M by E\n dim E = 4\n in x : bf16[M, N]\n"
      " out y : bf16[M, N] = 2 * x\n}");
  LoweredText result;
  result.lowered = lowering::lower(pass, Target{}, {.first = "pointwise"}, result.diagnostics);
  REQUIRE(names(result).size() >= 2);
  CHECK(names(result).front() == "pointwise");
  CHECK(result.lowered.has_preferred);
}

TEST_CASE("the model's order on shapes that were measured") {
  auto first = [](const std::string& spec) { return names(lower_text(spec)).front(); };
  auto plain = [&](int depth, int columns) {
    return first(ragged_spec("out y : bf16[M, N] = gemm(x, w)", fmt::format("E = 8, K = {}, N = {}", depth, columns)));
  };
  // 192 columns waste 3 % of 4096.
  CHECK(plain(7168, 4096) == "pingpong 128x128");
  CHECK(plain(8192, 4096) == "pingpong 128x128");
  CHECK(plain(2880, 5760) == "pingpong 128x192");
  CHECK(plain(2880, 2880) == "pingpong 128x192");
}
