// Enumerates the schedules that a kernel can run under, keeps the legal ones, and orders them by a cost model: the
// first is tried first, the others are what a plan that spills falls back to.
#pragma once

#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// `base` has everything that no schedule changes. The result is ordered, best first; it is empty, and the reason is in
// the diagnostics, when nothing fits.
std::vector<KernelPlan> enumerate_plans(const ir::Graph& graph, const KernelPlan& base, Diagnostics& diagnostics);

// How many CTAs of a pass (Family::pass) share a multiprocessor: 4, or 2 where their threads need the registers.
int choose_ctas(const ir::Graph& graph, const KernelPlan& plan);

}  // namespace epifuse::lowering
