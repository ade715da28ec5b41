// Spells the launches of a kernel without gemm as CUDA text: for each its parameter struct, its value as a device
// function, and the loop over its items. It decides nothing: every number comes from the plan.
#pragma once

#include <string>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// `graph` is the lowered one that the plan was made from. Deterministic: equal plans give equal text.
std::string emit_pointwise(const ir::Graph& graph, const lowering::KernelPlan& plan);

}  // namespace epifuse::codegen
