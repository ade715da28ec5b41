// The cost model: what a plan is expected to take, from the kernel's shapes and a few measured numbers (plan_cost.cpp,
// `constants`). It orders plans; it does not predict times.
#pragma once

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// What no schedule changes of an epilogue.
struct EpilogueCost {
  // Instructions of a thread for one element, in rough units: what decides whether the loop over blocks is unrolled,
  // and how long an epilogue takes.
  int weight = 0;
  // Registers of a thread beside the accumulators, while a block is computed.
  int registers = 0;
};
// `plan` needs its gemm, epilogue and deal.
EpilogueCost epilogue_cost(const ir::Graph& graph, const KernelPlan& plan);

// Whether the accumulators leave the epilogue too few registers.
bool will_spill(const KernelPlan& plan, const EpilogueCost& epilogue);

// Whether much of the epilogue is not hidden under main loops, so that larger code pays which takes fewer instructions.
bool is_exposed(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue);

// Whether it takes longer than a main loop: then it runs by itself part of the time, and its latency counts most.
bool outlasts_main_loop(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue);

// How the planner goes about tiles where it is not told. Where memory is the limit, they are dealt out, which is faster
// there by measurement: likely multiprocessors come to it unequally fast, and by index the slowest decides. Old values
// that are added to are read in whole rows of the output then.
//
// Where the rows of an MN-major weight begin between lines of 128 bytes, two CTAs share its columns: half of its boxes
// take two halves of lines for each row, and then L2 is the limit (docs/optimisations.md). Groups of few row tiles
// would leave the second CTA without one too often.
TileOrder usual_order(const ir::Graph& graph, const KernelPlan& plan);

// Why no two CTAs may share columns; empty: they may.
std::string_view why_no_pairs(const KernelPlan& plan);

// Cycles of a launch of usual size (or of the size that the dimensions give it); less is better.
double launch_cost(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue);

}  // namespace epifuse::lowering
