// What a dynamic schedule needs beside the kernel: the counter that deals out the tiles, in the workspace, and a launch
// in front that clears it. Nothing is left for the next launch to find: what the workspace holds before a launch does
// not matter, nor which kernels shared it.
#pragma once

#include <optional>
#include <string>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Of shared memory: where the roles of a CTA are told their tiles. 0 under a static schedule.
int dealt_tiles_bytes(const Schedule& schedule);

// The counter's region of the workspace, under a dynamic schedule.
void place_tile_counter(KernelPlan& plan);

// "tile_counter" among the parameters of the GEMM's launch.
void add_tile_counter_field(const KernelPlan& plan, RecipeStep& gemm);

// The launch in front of `gemm`, where there is one; and where it is in the finished recipe.
std::optional<RecipeStep> clearing_step(const KernelPlan& plan, const RecipeStep& gemm);
const RecipeStep* find_clearing_step(const KernelPlan& plan);

}  // namespace epifuse::lowering
