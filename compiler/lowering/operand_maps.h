// The tensor maps of a GEMM's operands: the boxes that templates/tile/operands.cuh describes.
#pragma once

#include <vector>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

struct OperandMaps {
  std::vector<TensorMapRecipe> a;          // [segments]
  std::vector<TensorMapRecipe> a_checked;  // [segments]; none for rows that are contiguous in memory
  std::vector<TensorMapRecipe> b;          // [segments * parts]; [segments] of an interleaved weight
};

OperandMaps operand_maps(const ir::Graph& graph, const KernelPlan& plan);

// Whether the operand's rows may have a pitch of their own; else its buffer is contiguous.
bool is_strided_operand(const ir::Graph& graph, const GemmOperand& operand);

}  // namespace epifuse::lowering
