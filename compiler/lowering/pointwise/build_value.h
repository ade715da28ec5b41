// From the nodes under a stored value to the straight list of instructions that evaluates it over a launch's axes.
#pragma once

#include "base/diagnostics.h"
#include "compiler/lowering/pointwise_plan.h"

namespace epifuse::lowering {

// Fills `launch.value`; axes, lane axis and width are there already. False when something was refused.
bool build_value(const ir::Graph& graph, ir::NodeId value, PointwiseLaunch& launch, Diagnostics& diagnostics);

}  // namespace epifuse::lowering
