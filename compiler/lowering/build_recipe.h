// Writes the launch recipe of a plan: buffers, symbols, tensor maps and the parameter block. The device-side parameter
// struct is spelled from the same list of fields.
#pragma once

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

LaunchRecipe build_recipe(const ir::Graph& graph, const KernelPlan& plan);

}  // namespace epifuse::lowering
