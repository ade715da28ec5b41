// The search for the fastest plan, on a made-up card: which plans are timed together, what is taken, and how rounds of
// different clocks are compared.
#include "jit/tuner.h"

#include <cmath>
#include <fmt/format.h>

#include "compiler/lowering/schedule_name.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::Tuned;
using lowering::KernelPlan;
using lowering::Schedule;

namespace {

std::string name_of(const KernelPlan& plan) { return lowering::schedule_name(plan.schedule); }

std::vector<KernelPlan> all_plans(const std::string& spec = "") {
  Diagnostics diagnostics;
  // Deep enough that memory is not the limit, where tiles would be dealt out.
  std::string text = small_spec;
  text.replace(text.find("N = 64"), 6, "N = 4096");
  text.replace(text.find("K = 64"), 6, "K = 4096");
  if (!spec.empty()) text = spec;
  const Program program = program_of(text, diagnostics);
  CompilerOptions options;
  options.all_plans = true;
  const auto planned = plan_kernel(program, "", options, diagnostics);
  REQUIRE(planned);
  return planned->lowered.plans;
}

// A card that needs `milliseconds` for a schedule, at a clock that falls from round to round; it refuses some plans.
struct Card {
  std::function<double(const Schedule&)> milliseconds;
  std::function<bool(const Schedule&)> spills = [](const Schedule&) { return false; };
  std::vector<std::vector<std::string>> rounds = {};  // the names of each
  std::vector<bool> last = {};

  Result<Tuned> tune(const std::vector<KernelPlan>& plans) {
    return jit::tune(plans, [this](const std::vector<const KernelPlan*>& tried, bool is_last) -> Result<jit::Round> {
      jit::Round round;
      const double slower = std::pow(1.1, static_cast<double>(rounds.size()));
      rounds.emplace_back();
      last.push_back(is_last);
      for (const KernelPlan* plan : tried) {
        rounds.back().push_back(name_of(*plan));
        jit::Trial& trial = round.trials.emplace_back();
        if (spills(plan->schedule)) {
          trial.refused = "spills 8 bytes";
          continue;
        }
        trial.milliseconds.median = slower * milliseconds(plan->schedule);
        trial.milliseconds.count = 16;
      }
      round.conditions.sm_clock_mhz = 1400 / slower;
      round.conditions.samples = 5;
      return round;
    });
  }
};

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Pingpong 128x160 is the fastest tile, and gains from fewer stages, bands of 4, and tiles that are dealt out.
double made_up(const Schedule& s) {
  double ms = 3;
  if (s.cooperative) ms *= 1.2;
  ms *= 1 + std::abs(s.tile_columns - 160) / 1000.0;
  if (s.tile_columns == 160) ms *= (s.dynamic ? 0.99 : 1) * (s.band == 4 ? 0.98 : 1) * (s.stages == 5 ? 0.97 : 1);
  return ms;
}

}  // namespace

TEST_CASE("tiles are compared first, then what can be chosen beside the best of them, then what helped together") {
  const std::vector<KernelPlan> plans = all_plans();
  Card card{made_up};
  const auto tuned = card.tune(plans);
  REQUIRE(tuned);
  REQUIRE(card.rounds.size() == 3);
  CHECK(card.last == std::vector<bool>{false, false, true});

  std::set<std::pair<bool, int>> tiles;
  for (const KernelPlan& plan : plans) tiles.insert({plan.schedule.cooperative, plan.schedule.tile_columns});
  CHECK(card.rounds[0].size() == tiles.size());
  for (const std::string& name : card.rounds[0]) CHECK(name.find(' ', name.find(' ') + 1) == std::string::npos);

  CHECK(has(card.rounds[1], "pingpong 128x160 dynamic"));
  CHECK(has(card.rounds[1], "pingpong 128x160 pairs"));
  CHECK(has(card.rounds[1], "pingpong 128x160 stages 4"));
  CHECK(has(card.rounds[1], "pingpong 128x160 band 2"));
  CHECK(has(card.rounds[1], "pingpong 128x128 band 16"));
  CHECK(!has(card.rounds[1], "pingpong 128x64 dynamic"));      // 10 % slower
  CHECK(!has(card.rounds[1], "cooperative 128x320 dynamic"));  // 20 %
  CHECK(!has(card.rounds[1], "pingpong 128x160 band 4 dynamic"));

  CHECK(has(card.rounds[2], "pingpong 128x160 stages 5 band 4 dynamic"));
  CHECK(name_of(*tuned->best().plan) == "pingpong 128x160 stages 5 band 4 dynamic");
  CHECK(tuned->conditions.sm_clock_mhz == 1400 / std::pow(1.1, 2.0));

  // At least as many as make a tuner of it.
  CHECK(tuned->plans.size() >= 24);
}

TEST_CASE("tiles are compared in the order that the planner would take, and its choice is timed") {
  for (const auto& [body, choice] :
       {std::pair{" dim E = 64, K = 5760, N = 2880\n group M by E\n in g : bf16[M, K]\n in x : bf16[M, N]\n"
                  " out w : f32[E, K, N] += gemm(g, x)\n",
                  "pingpong 128x192 band 15 dynamic"},
        {" dim E = 8, K = 2880, N = 1440\n group M by E\n in x : bf16[M, K]\n in w : bf16[E, K, N]\n"
         " out y : bf16[M, N] = gemm(x, w)\n",
         "pingpong 128x160 pairs"}}) {
    const std::vector<KernelPlan> plans = all_plans(fmt::format("kernel test {{\n{}}}\n", body));
    CHECK(name_of(plans.front()) == choice);
    Card card{[](const Schedule& s) { return 1 + s.tile_columns / 1000.0 + (s.dynamic || s.pairs ? 1 : 0); }};
    const auto tuned = card.tune(plans);
    REQUIRE(tuned);
    CHECK(has(card.rounds[0], choice));
    CHECK(name_of(*tuned->choice_of_model().plan) == choice);
    // What helps against the planner's order is found as well.
    CHECK(!tuned->best().plan->schedule.dynamic);
    CHECK(!tuned->best().plan->schedule.pairs);
  }
}

TEST_CASE("where one tile is far ahead, slower ones are looked at until there are 24 plans") {
  const std::vector<KernelPlan> plans = all_plans();
  Card card{[](const Schedule& s) { return s.tile_columns == 128 && !s.cooperative ? 1.0 : 2.0 + s.tile_columns; }};
  const auto tuned = card.tune(plans);
  REQUIRE(tuned);
  CHECK(tuned->plans.size() >= 24);
  CHECK(tuned->plans.size() <= 24 + 8);
  CHECK(has(card.rounds[1], "pingpong 128x128 dynamic"));
  CHECK(has(card.rounds[1], "pingpong 128x64 dynamic"));
  CHECK(!has(card.rounds[1], "pingpong 128x192 dynamic"));
}

TEST_CASE("times of all rounds are as the last one would have had them") {
  const std::vector<KernelPlan> plans = all_plans();
  Card card{made_up};
  const auto tuned = card.tune(plans);
  REQUIRE(tuned);
  double before = 0;
  for (const jit::TriedPlan& tried : tuned->plans) {
    INFO(name_of(*tried.plan));
    CHECK(tried.milliseconds == Approx(1.1 * 1.1 * made_up(tried.plan->schedule)).epsilon(1e-12));
    CHECK(tried.milliseconds >= before);
    before = tried.milliseconds;
  }
}

TEST_CASE("the model's choice is timed to the end, and ranks follow the model") {
  const std::vector<KernelPlan> plans = all_plans();
  // The model's choice is by far the slowest.
  const std::string choice = name_of(plans.front());
  Card card{[&](const Schedule& s) { return lowering::schedule_name(s) == choice ? 10.0 : made_up(s); }};
  const auto tuned = card.tune(plans);
  REQUIRE(tuned);
  CHECK(has(card.rounds[2], choice));
  CHECK(name_of(*tuned->choice_of_model().plan) == choice);
  CHECK(tuned->choice_of_model().milliseconds / tuned->best().milliseconds > 3);
  std::vector<std::pair<int, double>> by_rank;
  for (const jit::TriedPlan& tried : tuned->plans) by_rank.emplace_back(tried.model_rank, tried.plan->cost);
  std::sort(by_rank.begin(), by_rank.end());
  for (size_t i = 0; i < by_rank.size(); ++i) {
    CHECK(by_rank[i].first == static_cast<int>(i) + 1);
    if (i > 0) CHECK(by_rank[i].second >= by_rank[i - 1].second);
  }
}

TEST_CASE("plans that spill are tried once, and never taken") {
  const std::vector<KernelPlan> plans = all_plans();
  Card card{made_up, [](const Schedule& s) { return s.tile_columns == 160 || (s.tile_columns == 128 && s.dynamic); }};
  const auto tuned = card.tune(plans);
  REQUIRE(tuned);
  REQUIRE(tuned->any());
  std::map<std::string, int> times;
  for (const auto& round : card.rounds)
    for (const std::string& name : round) ++times[name];
  size_t refused = 0;
  for (const jit::TriedPlan& tried : tuned->plans) {
    if (tried.trial.refused.empty()) {
      CHECK(refused == 0);  // these come behind
      continue;
    }
    ++refused;
    CHECK(tried.trial.refused == "spills 8 bytes");
    CHECK(tried.model_rank == 0);
    CHECK(times[name_of(*tried.plan)] == 1);
  }
  CHECK(refused ==
        times.count("pingpong 128x160") + times.count("cooperative 128x320") + times.count("pingpong 128x128 dynamic"));
  CHECK(tuned->best().plan->schedule.tile_columns != 160);

  Card none{made_up, [](const Schedule&) { return true; }};
  const auto nothing = none.tune(plans);
  REQUIRE(nothing);
  CHECK(!nothing->any());
  CHECK(none.rounds.size() == 1);
}

TEST_CASE("an error of a round ends the search") {
  const std::vector<KernelPlan> plans = all_plans();
  int rounds = 0;
  const auto tuned = jit::tune(plans, [&](const std::vector<const KernelPlan*>& tried, bool) -> Result<jit::Round> {
    if (++rounds == 2) return environment_error("the GPU is lost");
    jit::Round round;
    for (size_t i = 0; i < tried.size(); ++i) round.trials.push_back({"", {1.0 + static_cast<double>(i)}});
    return round;
  });
  REQUIRE(!tuned);
  CHECK(tuned.error().message == "the GPU is lost");
}

TEST_CASE("kernels without gemm have few plans, and all are timed") {
  Diagnostics diagnostics;
  const Program program = program_of(
      "kernel pass {\n dim E = 4, N = 1024\n group M by E\n in x : bf16[M, N]\n out y : bf16[M, N] = 2 * x\n}\n",
      diagnostics);
  CompilerOptions options;
  options.all_plans = true;
  const auto planned = plan_kernel(program, "", options, diagnostics);
  REQUIRE(planned);
  REQUIRE(planned->lowered.plans.size() == 2);
  Card card{[](const Schedule& s) { return s.family == lowering::Family::pass ? 1.0 : 2.0; }};
  const auto tuned = card.tune(planned->lowered.plans);
  REQUIRE(tuned);
  CHECK(card.rounds[0].size() == 2);
  CHECK(name_of(*tuned->best().plan) == name_of(*tuned->choice_of_model().plan));
  CHECK(tuned->plans.size() == 2);
}
