// The epilogue of a GEMM as device code: one struct with a function for each value, and run(), which loads, computes
// and stores a tile block by block (templates/kernels/gemm_sm90.cuh says what the kernel asks of it).
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

std::string emit_epilogue(const ir::Graph& graph, const lowering::KernelPlan& plan);

}  // namespace epifuse::codegen
