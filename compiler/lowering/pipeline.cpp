#include "compiler/lowering/pipeline.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/build_epilogue.h"
#include "compiler/lowering/build_recipe.h"
#include "compiler/lowering/choose_schedule.h"
#include "compiler/lowering/classify_gemm.h"
#include "compiler/lowering/differentiate.h"
#include "compiler/lowering/plan_groups.h"
#include "compiler/lowering/plan_pass.h"
#include "compiler/lowering/pointwise.h"
#include "compiler/lowering/simplify.h"

namespace epifuse::lowering {
namespace {

void ensure_sound(const std::vector<std::string>& faults, std::string_view after) {
  EPIFUSE_ENSURE(faults.empty(), fmt::format("after {}: {}", after, fmt::join(faults, "; ")));
}

void refuse(const ir::Graph& graph, const KernelPlan& plan, Diagnostics& diagnostics, const std::string& what,
            const std::string& hint) {
  diagnostics.error(graph.inputs[static_cast<size_t>(plan.gemm.b[0].input)].tensor.where, what + " is not lowered yet",
                    hint);
}

// How weights are brought. K-major rows come in blocks of 32, which need groups (and halves) of whole blocks; otherwise
// pairs are brought one by one, which only knows halves. Columns that are
// contiguous in memory are told apart among the accumulators, or lie in pieces of whole slabs.
bool choose_weight_boxes(const ir::Graph& graph, KernelPlan& plan, Diagnostics& diagnostics) {
  const Gemm& gemm = plan.gemm;
  const bool whole_blocks = gemm.part_columns % block_columns == 0;
  plan.ragged_columns = !whole_blocks;
  plan.ragged_boxes = gemm.form == GemmForm::ragged_depth && is_ragged(graph, gemm);
  if (gemm.b[0].major == Major::mn) {
    const bool together = gemm.piece == 1 || gemm.piece == 8 || gemm.piece == block_columns;
    if (!gemm.split_weight() || gemm.piece == 0 || together || gemm.piece >= 64) return true;
    refuse(graph, plan, diagnostics,
           fmt::format("a split in pieces of {} of columns that are contiguous in memory", gemm.piece),
           "split in pieces of 1, 8 or 32, or store the weight with the contraction last");
    return false;
  }
  if (whole_blocks) return true;
  if (gemm.split_weight() && gemm.piece != 0) {
    refuse(graph, plan, diagnostics,
           fmt::format("a split in pieces of {} of {} columns, whose halves are no multiple of 32,", gemm.piece,
                       2 * gemm.part_columns),
           "use a multiple of 64 columns, or split into halves");
    return false;
  }
  plan.checked_pairs = true;
  return true;
}

std::vector<KernelPlan> plans_of_gemm(const ir::Graph& graph, const Gemm& gemm, const Target& target,
                                      Diagnostics& diagnostics) {
  std::optional<EpilogueAndPlaces> epilogue = build_epilogue(graph, gemm, diagnostics);
  if (!epilogue) return {};
  KernelPlan base;
  base.kernel = graph.name;
  base.target = target;
  base.gemm = gemm;
  base.places = std::move(epilogue->places);
  base.epilogue = std::move(epilogue->epilogue);
  if (!choose_weight_boxes(graph, base, diagnostics)) return {};
  if (base.pointer_weights(graph))
    base.add_region("weight maps", ir::extent_expression(graph, gemm.groups) *
                                       (int64_t{tensor_map_bytes} * gemm.segments * gemm.parts));
  return enumerate_plans(graph, base, diagnostics);
}

// One pass over tiles where the kernel is of that kind; the general launches behind it.
std::vector<KernelPlan> plans_without_gemm(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics) {
  std::vector<KernelPlan> plans;
  if (std::optional<KernelPlan> pass = plan_pass(graph, target)) plans.push_back(*std::move(pass));
  Diagnostics refused;
  for (KernelPlan& plan : plan_pointwise(graph, target, plans.empty() ? diagnostics : refused))
    plans.push_back(std::move(plan));
  return plans;
}

void choose_by_name(std::string_view name, Lowered& lowered, Diagnostics& diagnostics) {
  std::string names;
  std::vector<KernelPlan> chosen;
  for (KernelPlan& plan : lowered.plans) {
    names += (names.empty() ? "" : ", ") + schedule_name(plan.schedule);
    if (schedule_name(plan.schedule) == name) chosen.push_back(std::move(plan));
  }
  if (chosen.empty() && !lowered.plans.empty())
    diagnostics.error({}, fmt::format("no plan '{}' for kernel {}; there are: {}", name, lowered.graph.name, names));
  lowered.plans = std::move(chosen);
}

// A launch has 4096 bytes of parameters, and a block so much shared memory: hundreds of outputs take more.
void keep_what_fits(Lowered& lowered, Diagnostics& diagnostics) {
  const size_t planned = std::erase_if(lowered.plans, [](const KernelPlan& plan) {
    return plan.shared_bytes > plan.target.shared_bytes_per_block ||
           std::any_of(plan.recipe.steps.begin(), plan.recipe.steps.end(),
                       [](const RecipeStep& step) { return step.parameter_bytes > most_parameter_bytes; });
  });
  if (planned == 0 || !lowered.plans.empty()) return;
  const ir::Graph& graph = lowered.graph;
  diagnostics.error(
      graph.outputs.back().tensor.where,
      fmt::format("a kernel of {} buffers is not lowered yet", graph.inputs.size() + graph.outputs.size()),
      "a launch has no room for the addresses of so many: make several kernels of it");
}

}  // namespace

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"differentiate", differentiate},
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

  if (!check_groups(result.graph, diagnostics)) return result;
  const std::optional<Gemm> gemm = classify_gemm(result.graph, diagnostics);
  if (!gemm) return result;
  result.plans = gemm->form == GemmForm::none ? plans_without_gemm(result.graph, target, diagnostics)
                                              : plans_of_gemm(result.graph, *gemm, target, diagnostics);
  if (!schedule_override.empty()) choose_by_name(schedule_override, result, diagnostics);
  for (KernelPlan& plan : result.plans)
    if (plan.schedule.family != Family::pointwise) plan.recipe = build_recipe(result.graph, plan);
  keep_what_fits(result, diagnostics);
  for (const KernelPlan& plan : result.plans) ensure_sound(verify(plan), "planning");
  return result;
}

}  // namespace epifuse::lowering
