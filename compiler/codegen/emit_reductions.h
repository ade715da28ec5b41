// The text of reductions: in the epilogue (templates/epilogue/reduce.cuh), and the entries that finish them
// (templates/kernels/finish.cuh).
//
// Names in scope: p, tile, scratch, lane, rows_0 (OwnRows of place 0) and first_column everywhere; block, columns and
// the values value0 (and value1) at put; column and index at flush.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// Where a column of half `part` lies in the output: the text of an expression.
using ColumnText = std::function<std::string(int part, std::string_view column)>;

// Whether the partials of warps meet in shared memory: then a barrier of the warpgroup (GatheredColumnScales::sync)
// stands between open and the first put, and between the last put and flush.
bool meets_in_scratch(const lowering::Sink& sink);

// Rows that do not exist must be zero in the values. Columns need not be: what was computed in them is selected away.
bool needs_rows_cleared(lowering::SinkKind kind);

// The include lines of a plan with reductions; empty for one without.
std::string reduction_includes(const lowering::KernelPlan& plan);

// In front of the loop over blocks.
std::string open_reduction(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink);
// In the loop, for each part of Sink::values in order, both in one scope.
std::string put_reduction(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink,
                          int part);
// Behind the loop, inside a loop of the warpgroup's threads over `index`, the columns of the tile's part, where
// `column` is first_column + index.
std::string flush_reduction(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink,
                            const ColumnText& column_of);

// Parameter structs and kernels of the finishing launches, in the order of lowering::finishing_steps. They use the
// kernel's `struct Plan`.
std::string finishing_entries(const ir::Graph& graph, const lowering::KernelPlan& plan);

}  // namespace epifuse::codegen
