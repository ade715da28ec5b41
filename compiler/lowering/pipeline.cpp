#include "compiler/lowering/pipeline.h"

#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/lowering/build_epilogue.h"
#include "compiler/lowering/build_recipe.h"
#include "compiler/lowering/choose_schedule.h"
#include "compiler/lowering/classify_gemm.h"
#include "compiler/lowering/simplify.h"

namespace epifuse::lowering {
namespace {

void ensure_sound(const std::vector<std::string>& faults, std::string_view after) {
  EPIFUSE_ENSURE(faults.empty(), fmt::format("after {}: {}", after, fmt::join(faults, "; ")));
}

int slot_bytes_of(const ir::Graph& graph, const Epilogue& epilogue) {
  int bytes = 0;
  for (const EpilogueInput& in : epilogue.inputs)
    if (in.broadcast == Broadcast::tile)
      bytes += tile_rows * block_columns *
               storage_bits(graph.inputs[static_cast<size_t>(in.input)].tensor.type.storage()) / 8;
  return bytes;
}

// Weight rows in blocks of 32 need groups (and halves) of whole blocks; otherwise pairs are brought one by one, which
// only knows halves.
bool choose_weight_boxes(const ir::Graph& graph, KernelPlan& plan, Diagnostics& diagnostics) {
  const bool whole_blocks = plan.gemm.part_columns % block_columns == 0;
  if (whole_blocks) return true;
  if (plan.gemm.parts == 2 && plan.gemm.piece != 0) {
    diagnostics.error(graph.inputs[static_cast<size_t>(plan.gemm.b)].tensor.where,
                      fmt::format("a split in pieces of {} of {} columns, whose halves are no multiple of 32, is not "
                                  "lowered yet",
                                  plan.gemm.piece, 2 * plan.gemm.part_columns),
                      "use a multiple of 64 columns, or split into halves");
    return false;
  }
  plan.checked_pairs = plan.ragged_columns = true;
  return true;
}

}  // namespace

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"apply_left_out", apply_left_out},
      {"fold", fold},
      {"merge_and_prune", merge_and_prune},
  };
  return list;
}

Lowered lower(const ir::Graph& graph, const Target& target, std::string_view schedule_override,
              Diagnostics& diagnostics, const Observer& observer) {
  Lowered result{graph, {}};
  for (const Pass& pass : passes()) {
    result.graph = pass.run(std::move(result.graph));
    ensure_sound(ir::verify(result.graph), pass.name);
    if (observer) observer(pass.name, result.graph);
  }

  const std::optional<Gemm> gemm = classify_gemm(result.graph, diagnostics);
  if (!gemm) return result;
  std::optional<EpilogueAndPlaces> epilogue = build_epilogue(result.graph, *gemm, diagnostics);
  if (!epilogue) return result;

  KernelPlan base;
  base.kernel = graph.name;
  base.target = target;
  base.gemm = *gemm;
  base.places = std::move(epilogue->places);
  base.epilogue = std::move(epilogue->epilogue);
  base.slot_bytes = slot_bytes_of(result.graph, base.epilogue);
  if (!choose_weight_boxes(result.graph, base, diagnostics)) return result;

  result.plans = enumerate_plans(result.graph, base, diagnostics);
  if (!schedule_override.empty()) {
    std::string names;
    std::vector<KernelPlan> chosen;
    for (KernelPlan& plan : result.plans) {
      names += (names.empty() ? "" : ", ") + schedule_name(plan.schedule);
      if (schedule_name(plan.schedule) == schedule_override) chosen.push_back(std::move(plan));
    }
    if (chosen.empty() && !result.plans.empty())
      diagnostics.error({},
                        fmt::format("no plan '{}' for kernel {}; there are: {}", schedule_override, graph.name, names));
    result.plans = std::move(chosen);
  }
  for (KernelPlan& plan : result.plans) {
    plan.recipe = build_recipe(result.graph, plan);
    ensure_sound(verify(plan), "planning");
  }
  return result;
}

}  // namespace epifuse::lowering
