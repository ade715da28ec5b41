// The schedules that a kernel can run under, ordered by the cost model (plan_cost.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"
#include "compiler/lowering/schedule_name.h"

namespace epifuse::lowering {

// As many plans are compiled for a kernel at most, and one of a tuning file; a compile takes seconds.
inline constexpr int most_plans_unasked = 6;

// `base` has everything that no schedule changes.
//
// What is compiled without being told: the first is tried first, the others are what a plan that spills falls back to,
// in the end the narrowest tile. Empty, and the reason in the diagnostics, when nothing fits. `impossible` gets the
// tiles that the kernel cannot run with.
std::vector<KernelPlan> enumerate_plans(const ir::Graph& graph, const KernelPlan& base, Diagnostics& diagnostics,
                                        std::vector<ImpossiblePlan>& impossible);

// What a tuner chooses from, best first by the model: every tile, and with each of them numbers of stages, bands, and
// both ways to deal out tiles.
std::vector<KernelPlan> all_plans(const ir::Graph& graph, const KernelPlan& base);

// The plan of a name (of Family::gemm), whether or not it is among those. Nothing, and why, when the kernel cannot run
// so.
std::optional<KernelPlan> plan_by_name(const ir::Graph& graph, const KernelPlan& base, const ScheduleName& name,
                                       std::string& why);

// How many CTAs of a pass (Family::pass) share a multiprocessor: 4, or 2 where their threads need the registers.
int choose_ctas(const ir::Graph& graph, const KernelPlan& plan);

}  // namespace epifuse::lowering
