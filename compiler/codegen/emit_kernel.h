// Spells a plan as CUDA text: the parameter struct, the traits and the epilogue of one kernel over the templates. It
// decides nothing: every number comes from the plan, every name from the spec or the templates.
#pragma once

#include <string>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// `graph` is the lowered one that the plan was made from. Deterministic: equal plans give equal text.
std::string emit_kernel(const ir::Graph& graph, const lowering::KernelPlan& plan);

}  // namespace epifuse::codegen
