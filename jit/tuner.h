// The search for a kernel's fastest plan: which plans are tried together, and which are left after each round. How
// plans are timed is the caller's business, so that the search can be followed without a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/lowering/kernel_plan.h"
#include "jit/distribution.h"
#include "jit/gpu_conditions.h"

namespace epifuse::jit {

// What a round says of a plan: why it is not timed ("spills 48 bytes"), or the times of a launch.
struct Trial {
  std::string refused;
  Distribution milliseconds;
};
struct Round {
  std::vector<Trial> trials;  // as the plans
  GpuConditions conditions;
};
// Times plans against each other, in turns. `last` rounds decide, and are worth more time.
using RunRound = std::function<Result<Round>(const std::vector<const lowering::KernelPlan*>& plans, bool last)>;

struct TriedPlan {
  const lowering::KernelPlan* plan = nullptr;
  Trial trial;  // of the last round that it took part in
  // Milliseconds as the last round would have had them: rounds are compared by the plan that won the earlier one, since
  // the card may have another clock in each.
  double milliseconds = 0;
  int model_rank = 0;  // by the cost model among all that could be timed; 1: its choice
};

struct Tuned {
  std::vector<TriedPlan> plans;  // fastest first, then those that were refused
  GpuConditions conditions;      // of the last round

  bool any() const { return !plans.empty() && plans.front().trial.refused.empty(); }
  const TriedPlan& best() const { return plans.front(); }
  // What would be taken without tuning.
  const TriedPlan& choice_of_model() const;
};

// Three rounds: every tile with the planner's own choices beside it; of the best tiles everything else that may be
// chosen, one thing at a time; then the best of all, with what helped put together, and the model's choice. `plans` are
// all that there are (lowering::all_plans), best first by the model, and must outlive the result.
Result<Tuned> tune(const std::vector<lowering::KernelPlan>& plans, const RunRound& run);

}  // namespace epifuse::jit
