// Whether an epilogue works on columns in the order in which wgmma leaves those of an MN-major weight, or has them put
// in order first (templates/atom/ownership.cuh).
#pragma once

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Whether both halves of an output go to memory together, since they alternate there by less than a block.
bool alternates(const KernelPlan& plan, const Sink& sink);

bool stores_halves_together(const KernelPlan& plan);

// Everything that is stored and read can be put in order by less than the shuffles of the accumulators. Looks at the
// epilogue, the deal and the widths, not at the schedule.
bool works_in_natural_columns(const KernelPlan& plan);

// Nothing but its own values is kept from one block of a tile to the next (in scratch memory at most), so that blocks
// outside the output may be left out.
bool works_block_by_block(const KernelPlan& plan);

}  // namespace epifuse::lowering
