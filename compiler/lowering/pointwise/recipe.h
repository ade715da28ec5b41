// The launch recipe of a pointwise plan. The names of parameters, which the emitter spells:
//   sizes_M, capacity_M      of a table of groups
//   in_x, stride0_in_x       an input, the distance between neighbours along its axis 0
//   out, stride0_out         the output;  scales, stride0_scales  its scales;  partials  those of a reduction
//   tiles_outer, tiles_inner scales in tiles: how many there are along the two axes of a matrix, in memory order
//   rotated_7, stride0_…     what the rotation of node 7 left in the workspace; where that is stored it is `out`
//   option_a                 an input that a type's option names: a maximum, or a seed
//   items                    how many there are
//   size_0                   of axis 0 of the walk
//   split_size, partials_of  of the dimension that partials cut; of one element, where they do not follow from groups
//   half_3, limit_3          what coordinate 3 needs to know
//   param_p                  a param
#pragma once

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

LaunchRecipe build_pointwise_recipe(const ir::Graph& graph, const KernelPlan& plan);

// Of the partials of a split reduction: how many there are for each kept element.
IntExpr partial_count(const ir::Graph& graph, const PointwiseLaunch& launch);
// Elements that a launch's kept axes have.
IntExpr kept_elements(const ir::Graph& graph, const PointwiseLaunch& launch);

}  // namespace epifuse::lowering
