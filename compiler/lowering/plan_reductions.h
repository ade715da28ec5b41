// Where the partials of `sum` and `amax` lie, and the launches that make results of them.
//
// The GEMM's launch stores partials into the workspace, all of them f32; what each stands for is said at SinkKind and
// does not depend on the schedule.
//   reduce_rows     [blocks of 32 columns][rows of place 0]
//   reduce_columns  [row tiles][columns of the output]
//   reduce_tiles    [row tiles][blocks of 32 columns]
// A value over doubled columns has one partial for both halves, except in reduce_columns.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// The most tiles of 128 rows that groups of any sizes can be cut into; exact where rows do not lie in ragged groups.
IntExpr most_row_tiles(const ir::Graph& graph, const KernelPlan& plan);

// The rows of place 0: of all groups, or batches.
IntExpr all_rows(const ir::Graph& graph, const Gemm& gemm);

// For a plan whose schedule is known: adds the shared memory in which warps meet to plan.scratch_bytes (Sink::scratch)
// and the regions "partials NAME" to plan.workspace.
void place_reductions(const ir::Graph& graph, KernelPlan& plan);

// Of the shared memory of reduce_columns, for each value.
int column_scratch_bytes(const KernelPlan& plan);

// Fields of the GEMM's launch, for each reduced output: `partials_NAME`, and `partial_pitch_NAME`, the distance in
// elements between neighbours along the first axis above.
void add_partials_fields(const ir::Graph& graph, const KernelPlan& plan, RecipeStep& step);

// One launch for each reduced output, behind the GEMM's.
std::vector<RecipeStep> finishing_steps(const ir::Graph& graph, const KernelPlan& plan);

// "kernel_NAME_finish_OUTPUT".
std::string finishing_entry(const ir::Graph& graph, const Sink& sink);

}  // namespace epifuse::lowering
