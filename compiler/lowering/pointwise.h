// Plans kernels without gemm (pointwise_plan.h): one launch for each output, two where a reduction is split. It serves
// users' memory passes and, one operation at a time, the unfused path; so it takes any graph without gemm and grad.
#pragma once

#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// `graph` is the one behind the lowering passes, with its dims bound. One plan with its recipe, or none: what cannot be
// lowered is in the diagnostics, by name and place.
std::vector<KernelPlan> plan_pointwise(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics);

// The launches as `--emit=plan` shows them, without the recipe.
std::string print_pointwise(const ir::Graph& graph, const KernelPlan& plan);

}  // namespace epifuse::lowering
