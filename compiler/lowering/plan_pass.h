// Plans a kernel without gemm as one memory pass over tiles of rows and columns (templates/kernels/pass_sm90.cuh), with
// the same epilogue pieces as a GEMM's: every input is read once, however many outputs there are.
#pragma once

#include <optional>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Without its recipe. Nothing where the values do not all lie over one pair of rows and columns (and groups or
// batches), an input or output is of a kind that tiles do not have, or all outputs are reductions: such kernels are
// pointwise launches (pointwise.h).
std::optional<KernelPlan> plan_pass(const ir::Graph& graph, const Target& target);

}  // namespace epifuse::lowering
