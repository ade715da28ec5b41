#include "compiler/lowering/tile_counter.h"

#include "compiler/lowering/recipe_fields.h"

namespace epifuse::lowering {
namespace {

constexpr const char* region_name = "tile counter";
constexpr int counter_bytes = 4;

// As templates/kernels/tile_counter.cuh has them.
constexpr uint32_t clearing_threads = 32;

// As templates/pipeline/tile_deal.cuh has them: slots of each consumer warpgroup, of 8 bytes and two barriers.
constexpr int deal_slots = 2, deal_slot_bytes = 8 + 2 * 8;

std::string clearing_entry(const KernelPlan& plan) { return "kernel_" + plan.kernel + "_clear"; }

}  // namespace

int dealt_tiles_bytes(const Schedule& schedule) { return schedule.dynamic ? 2 * deal_slots * deal_slot_bytes : 0; }

void place_tile_counter(KernelPlan& plan) {
  if (plan.schedule.dynamic) plan.add_region(region_name, counter_bytes);
}

void add_tile_counter_field(const KernelPlan& plan, RecipeStep& gemm) {
  if (plan.schedule.dynamic)
    add_address(gemm, "tile_counter", std::string(workspace_name), plan.region(region_name).offset);
}

std::optional<RecipeStep> clearing_step(const KernelPlan& plan, const RecipeStep& gemm) {
  if (!plan.schedule.dynamic) return std::nullopt;
  RecipeStep step;
  step.kind = RecipeStep::Kind::launch;
  step.entry = clearing_entry(plan);
  step.block = clearing_threads;
  step.grid = min(gemm.grid, 1);
  step.waits = true;
  add_tile_counter_field(plan, step);
  close_fields(step);
  return step;
}

const RecipeStep* find_clearing_step(const KernelPlan& plan) {
  if (!plan.schedule.dynamic) return nullptr;
  for (const RecipeStep& step : plan.recipe.steps)
    if (step.entry == clearing_entry(plan)) return &step;
  return nullptr;
}

}  // namespace epifuse::lowering
