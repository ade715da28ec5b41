// The lowering pipeline as data: named passes over the graph, each verified, then the plan.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(ir::Graph);
};
const std::vector<Pass>& passes();

// Called after each pass with its name and what it made: for --emit=ir.
using Observer = std::function<void(std::string_view, const ir::Graph&)>;

struct Lowered {
  ir::Graph graph;                // after the passes
  std::vector<KernelPlan> plans;  // best first; empty when something was refused
};

// Dimensions of the graph must be bound where a number is needed; what is missing or not lowered yet is in the
// diagnostics. A schedule override ("pingpong 128x192") keeps that plan alone.
Lowered lower(const ir::Graph& graph, const Target& target, std::string_view schedule_override,
              Diagnostics& diagnostics, const Observer& observer = nullptr);

}  // namespace epifuse::lowering
