#include "jit/tuner.h"

#include <algorithm>
#include <map>

#include "base/ensure.h"
#include "compiler/lowering/schedule_name.h"

namespace epifuse::jit {
namespace {

using lowering::KernelPlan;
using lowering::Schedule;

constexpr double tile_margin = 1.04;  // tiles slower than the best by more are not looked at any further
constexpr size_t most_tiles = 3, most_finalists = 4;
constexpr size_t least_plans = 24;  // are timed, where there are so many; slower tiles are then looked at as well
constexpr double helps = 0.998;     // a change that is put together with others has to win so much by itself

bool same_tile(const Schedule& a, const Schedule& b) {
  return a.family == b.family && a.cooperative == b.cooperative && a.tile_columns == b.tile_columns &&
         a.separate == b.separate;
}
// Whether others work on a tile than the planner would have it.
bool deals_otherwise(const Schedule& s) { return s.dynamic != s.usual_order.dynamic || s.pairs != s.usual_order.pairs; }
// In how many things a schedule differs from the planner's choice for its tile.
int changes(const Schedule& s) {
  if (s.family != lowering::Family::gemm) return 0;
  return (s.stages != s.usual_stages) + (s.band != s.usual_order.band) + deals_otherwise(s);
}

class Search {
 public:
  Search(const std::vector<KernelPlan>& plans, const RunRound& run) : plans_(plans), run_(run) {}

  Result<Tuned> run() {
    if (Status done = round([](const KernelPlan& plan) { return changes(plan.schedule) == 0; }, false); !done)
      return done.error();
    if (timed_.empty()) return finish();
    const std::vector<const KernelPlan*> tiles = best_tiles();
    const auto of_best_tile = [&](const KernelPlan& plan) {
      return std::any_of(tiles.begin(), tiles.end(),
                         [&](const KernelPlan* tile) { return same_tile(tile->schedule, plan.schedule); });
    };
    if (Status done = round([&](const KernelPlan& p) { return of_best_tile(p) && changes(p.schedule) <= 1; }, false);
        !done)
      return done.error();
    std::vector<const KernelPlan*> last = fastest(most_finalists);
    const double good = tile_margin * timed_.at(last.front()).milliseconds;
    for (const KernelPlan* tile : tiles)
      if (timed_.at(tile).milliseconds <= good)
        if (const KernelPlan* together = combination(*tile)) add(last, together);
    add(last, choice_of_model());
    const auto is_last = [&](const KernelPlan& p) { return std::find(last.begin(), last.end(), &p) != last.end(); };
    if (Status done = round(is_last, true); !done) return done.error();
    return finish();
  }

 private:
  static void add(std::vector<const KernelPlan*>& list, const KernelPlan* plan) {
    if (std::find(list.begin(), list.end(), plan) == list.end()) list.push_back(plan);
  }

  // Times those of the plans that are wanted, but for what was refused before; and the best so far, by which the rounds
  // are compared.
  template <class Wanted>
  Status round(const Wanted& wanted, bool last) {
    const KernelPlan* best = timed_.empty() ? nullptr : fastest(1).front();
    std::vector<const KernelPlan*> chosen;
    for (const KernelPlan& plan : plans_)
      if (!refused_.contains(&plan) && (wanted(plan) || &plan == best)) chosen.push_back(&plan);
    if (chosen.empty()) return {};
    Result<Round> result = run_(chosen, last);
    if (!result) return result.error();
    EPIFUSE_ENSURE(result->trials.size() == chosen.size(), "a round with another number of plans");
    if (best) {
      const auto at = std::find(chosen.begin(), chosen.end(), best) - chosen.begin();
      const double now = result->trials[static_cast<size_t>(at)].milliseconds.median;
      const double scale = now / timed_.at(best).milliseconds;
      for (auto& [plan, tried] : timed_) tried.milliseconds *= scale;
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      TriedPlan tried{chosen[i], std::move(result->trials[i]), 0, 0};
      tried.milliseconds = tried.trial.milliseconds.median;
      (tried.trial.refused.empty() ? timed_ : refused_)[chosen[i]] = std::move(tried);
    }
    conditions_ = result->conditions;
    return {};
  }

  std::vector<const KernelPlan*> fastest(size_t count) const {
    std::vector<const TriedPlan*> order;
    for (const auto& [plan, tried] : timed_) order.push_back(&tried);
    std::sort(order.begin(), order.end(), [](const TriedPlan* a, const TriedPlan* b) {
      return std::pair(a->milliseconds, a->plan) < std::pair(b->milliseconds, b->plan);
    });
    std::vector<const KernelPlan*> plans;
    for (size_t i = 0; i < std::min(count, order.size()); ++i) plans.push_back(order[i]->plan);
    return plans;
  }

  std::vector<const KernelPlan*> best_tiles() const {
    std::vector<const KernelPlan*> tiles;
    const double best = timed_.at(fastest(1).front()).milliseconds;
    size_t plans = timed_.size();
    for (const KernelPlan* tile : fastest(timed_.size())) {
      const bool good = tiles.size() < most_tiles && timed_.at(tile).milliseconds <= tile_margin * best;
      if (!good && plans >= least_plans) break;
      tiles.push_back(tile);
      plans += static_cast<size_t>(std::count_if(plans_.begin(), plans_.end(), [&](const KernelPlan& plan) {
        return same_tile(plan.schedule, tile->schedule) && changes(plan.schedule) == 1;
      }));
    }
    return tiles;
  }

  // Of a tile: the stages, the band and the way to go about tiles that were each the best by themselves.
  const KernelPlan* combination(const KernelPlan& tile) const {
    Schedule together = tile.schedule;
    const double usual = timed_.at(&tile).milliseconds;
    double stages = helps * usual, band = stages, order = stages;
    for (const auto& [plan, tried] : timed_) {
      const Schedule& s = plan->schedule;
      if (!same_tile(s, tile.schedule) || changes(s) != 1) continue;
      double& so_far = deals_otherwise(s) ? order : s.band != s.usual_order.band ? band : stages;
      if (tried.milliseconds >= so_far) continue;
      so_far = tried.milliseconds;
      if (deals_otherwise(s))
        together.dynamic = s.dynamic, together.pairs = s.pairs;
      else if (s.band != s.usual_order.band)
        together.band = s.band;
      else
        together.stages = s.stages;
    }
    const std::string name = lowering::schedule_name(together);
    for (const KernelPlan& plan : plans_)
      if (lowering::schedule_name(plan.schedule) == name) return &plan;
    return nullptr;
  }

  const KernelPlan* choice_of_model() const {
    for (const KernelPlan& plan : plans_)
      if (timed_.contains(&plan)) return &plan;
    return nullptr;
  }

  Tuned finish() {
    Tuned tuned;
    int rank = 0;
    for (const KernelPlan& plan : plans_)
      if (const auto at = timed_.find(&plan); at != timed_.end()) at->second.model_rank = ++rank;
    for (const KernelPlan* plan : fastest(timed_.size())) tuned.plans.push_back(timed_.at(plan));
    for (const KernelPlan& plan : plans_)
      if (const auto at = refused_.find(&plan); at != refused_.end()) tuned.plans.push_back(at->second);
    tuned.conditions = conditions_;
    return tuned;
  }

  const std::vector<KernelPlan>& plans_;
  const RunRound& run_;
  std::map<const KernelPlan*, TriedPlan> timed_, refused_;
  GpuConditions conditions_;
};

}  // namespace

const TriedPlan& Tuned::choice_of_model() const {
  const auto at =
      std::find_if(plans.begin(), plans.end(), [](const TriedPlan& tried) { return tried.model_rank == 1; });
  EPIFUSE_ENSURE(at != plans.end(), "no plan was timed");
  return *at;
}

Result<Tuned> tune(const std::vector<lowering::KernelPlan>& plans, const RunRound& run) {
  return Search(plans, run).run();
}

}  // namespace epifuse::jit
