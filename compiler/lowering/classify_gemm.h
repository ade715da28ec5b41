// Names the GEMM of a kernel: which operand gives the rows, which the columns, what is contracted, how the operands lie
// in memory, and in how many parts the columns are taken; GemmForm::none where there is no gemm. What the compiler
// cannot lower yet is refused here, by name and with a place.
#pragma once

#include <optional>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Dimensions must be bound. Nothing when something was refused.
std::optional<Gemm> classify_gemm(const ir::Graph& graph, Diagnostics& diagnostics);

}  // namespace epifuse::lowering
