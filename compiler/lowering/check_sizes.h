// Whether the numbers of a kernel's dims are numbers that a launch can pass. Device code counts rows, columns and
// groups in 32 bits: a `dim` that is larger has no kernel, nor has one of which a launch would have to pass something
// larger (the columns of both halves, the rows of all groups).
#pragma once

#include <vector>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Before planning, whose arithmetic then stays inside 64 bits.
bool check_dims(const ir::Graph& graph, Diagnostics& diagnostics);

// Behind it: leaves out the plans that no launch has numbers for, however small what only a launch knows may be. When
// none is left, the diagnostics say what is too large.
void keep_what_counts(const ir::Graph& graph, std::vector<KernelPlan>& plans, Diagnostics& diagnostics);

}  // namespace epifuse::lowering
