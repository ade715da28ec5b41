// The lowering pipeline as data: named passes over the graph, each verified, then the plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"
#include "compiler/lowering/schedule_name.h"

namespace epifuse::lowering {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(ir::Graph);
};
const std::vector<Pass>& passes();

// Called after each pass with its name and what it made: for --emit=ir.
using Observer = std::function<void(std::string_view, const ir::Graph&)>;

struct Lowered {
  ir::Graph graph;                         // after the passes
  std::vector<KernelPlan> plans;           // best first; empty when something was refused
  bool has_preferred = false;              // the first is that of PlanChoice::first
  std::string why_not_preferred;           // asked for, and not there; empty where nothing is known
  std::vector<ImpossiblePlan> impossible;  // of a GEMM: usual tiles that are not among the plans, and why
};

// Which plans are wanted.
struct PlanChoice {
  std::string_view only;   // a schedule's name: that plan, or an error
  std::string_view first;  // a schedule's name: that plan goes before the planner's own, where there is one
  bool all = false;        // not a few to fall back on, but all that a tuner chooses from
};

// Dimensions of the graph must be bound where a number is needed; what is missing or not lowered yet is in the
// diagnostics.
Lowered lower(const ir::Graph& graph, const Target& target, const PlanChoice& choice, Diagnostics& diagnostics,
              const Observer& observer = nullptr);

}  // namespace epifuse::lowering
