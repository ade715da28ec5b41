#include "compiler/lowering/pipeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/build_epilogue.h"
#include "compiler/lowering/build_recipe.h"
#include "compiler/lowering/check_sizes.h"
#include "compiler/lowering/choose_schedule.h"
#include "compiler/lowering/classify_gemm.h"
#include "compiler/lowering/column_order.h"
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

std::optional<KernelPlan> base_plan(const ir::Graph& graph, const Gemm& gemm, const Target& target,
                                    Diagnostics& diagnostics) {
  std::optional<EpilogueAndPlaces> epilogue = build_epilogue(graph, gemm, diagnostics);
  if (!epilogue) return std::nullopt;
  KernelPlan base;
  base.kernel = graph.name;
  base.target = target;
  base.gemm = gemm;
  base.places = std::move(epilogue->places);
  base.epilogue = std::move(epilogue->epilogue);
  if (!choose_weight_boxes(graph, base, diagnostics)) return std::nullopt;
  base.deal = deal_of(gemm);
  base.natural_epilogue = works_in_natural_columns(base);
  if (base.pointer_weights(graph))
    base.add_region("weight maps", ir::extent_expression(graph, gemm.groups) *
                                       (int64_t{tensor_map_bytes} * gemm.segments * gemm.parts));
  return base;
}

// Of what the user wrote, whatever its length.
std::string shortened(std::string_view name) {
  constexpr size_t longest = 60;
  return name.size() <= longest ? std::string(name) : fmt::format("{}…", name.substr(0, longest));
}

// Why a name is not even one of the kind of plans that a kernel has; empty: it is.
std::string wrong_kind(const std::optional<ScheduleName>& name, bool with_gemm) {
  if (!name)
    return "it is no name: there are 'pingpong 128x192' and 'cooperative 128x256', behind them 'separate', 'stages 4', "
           "'band 16', 'dynamic' and 'pairs', and 'pass 128x64' and 'pointwise'";
  if ((name->family == Family::gemm) == with_gemm) return "";
  return with_gemm ? "it is one of a kernel without gemm" : "it is one of a kernel with gemm";
}

// `all` of which there are; `plans` are those that are tried without being told.
void refuse_name(const ir::Graph& graph, std::string_view name, const std::string& why, size_t all,
                 const std::vector<KernelPlan>& plans, Diagnostics& diagnostics) {
  std::string names;
  for (const KernelPlan& plan : plans) names += (names.empty() ? "" : ", ") + schedule_name(plan.schedule);
  const std::string list =
      all > plans.size() ? fmt::format(" ({} in all: epifuse explain --all-plans lists them)", all) : "";
  diagnostics.error({}, fmt::format("no plan '{}' for kernel {}, because {}; those that are tried unasked{} are: {}",
                                    shortened(name), graph.name, why, list, names));
}

std::vector<KernelPlan> plans_of_gemm(const ir::Graph& graph, const KernelPlan& base, const PlanChoice& choice,
                                      Lowered& lowered, Diagnostics& diagnostics) {
  std::string why;
  const auto named = [&](std::string_view name) -> std::optional<KernelPlan> {
    const std::optional<ScheduleName> parsed = parse_schedule_name(name);
    why = wrong_kind(parsed, true);
    return why.empty() ? plan_by_name(graph, base, *parsed, why) : std::nullopt;
  };
  if (!choice.only.empty())
    if (std::optional<KernelPlan> plan = named(choice.only)) return {*std::move(plan)};
  std::vector<KernelPlan> plans = enumerate_plans(graph, base, diagnostics, lowered.impossible);
  if (!choice.only.empty()) {
    if (!plans.empty()) refuse_name(graph, choice.only, why, all_plans(graph, base).size(), plans, diagnostics);
    return {};
  }
  if (choice.all && !plans.empty()) return all_plans(graph, base);
  std::optional<KernelPlan> first = choice.first.empty() ? std::nullopt : named(choice.first);
  if (!first) {
    lowered.why_not_preferred = why;
    return plans;
  }
  lowered.has_preferred = true;
  std::erase_if(plans, [name = schedule_name(first->schedule)](const KernelPlan& plan) {
    return schedule_name(plan.schedule) == name;
  });
  plans.insert(plans.begin(), *std::move(first));
  return plans;
}

// One pass over tiles where the kernel is of that kind; the general launches behind it, or why they are not there.
std::vector<KernelPlan> plans_without_gemm(const ir::Graph& graph, const Target& target, std::string& no_launches,
                                           Diagnostics& diagnostics) {
  std::vector<KernelPlan> plans;
  if (std::optional<KernelPlan> pass = plan_pass(graph, target)) plans.push_back(*std::move(pass));
  Diagnostics refused;
  for (KernelPlan& plan : plan_pointwise(graph, target, plans.empty() ? diagnostics : refused))
    plans.push_back(std::move(plan));
  if (refused.has_errors()) no_launches = refused.all().front().message;
  return plans;
}

// Of plans without gemm, which are few.
void choose_by_name(const PlanChoice& choice, const std::string& no_launches, Lowered& lowered,
                    Diagnostics& diagnostics) {
  const auto has_name = [](std::string_view name) {
    return [name](const KernelPlan& plan) { return schedule_name(plan.schedule) == name; };
  };
  std::vector<KernelPlan>& plans = lowered.plans;
  if (!choice.only.empty()) {
    if (!plans.empty() && std::none_of(plans.begin(), plans.end(), has_name(choice.only))) {
      const std::optional<ScheduleName> parsed = parse_schedule_name(choice.only);
      std::string why = wrong_kind(parsed, false);
      if (why.empty()) why = parsed->family == Family::pass ? "it has no pass over such tiles" : no_launches;
      refuse_name(lowered.graph, choice.only, why, plans.size(), plans, diagnostics);
    }
    std::erase_if(plans, std::not_fn(has_name(choice.only)));
  } else if (!choice.first.empty()) {
    lowered.has_preferred = std::stable_partition(plans.begin(), plans.end(), has_name(choice.first)) != plans.begin();
    lowered.why_not_preferred = wrong_kind(parse_schedule_name(choice.first), false);
  }
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

Lowered lower(const ir::Graph& graph, const Target& target, const PlanChoice& choice, Diagnostics& diagnostics,
              const Observer& observer) {
  Lowered result;
  result.graph = graph;
  for (const Pass& pass : passes()) {
    result.graph = pass.run(std::move(result.graph));
    ensure_sound(ir::verify(result.graph), pass.name);
    if (observer) observer(pass.name, result.graph);
  }

  if (!check_dims(result.graph, diagnostics) || !check_groups(result.graph, diagnostics)) return result;
  const std::optional<Gemm> gemm = classify_gemm(result.graph, diagnostics);
  if (!gemm) return result;
  if (gemm->form == GemmForm::none) {
    std::string no_launches;
    result.plans = plans_without_gemm(result.graph, target, no_launches, diagnostics);
    choose_by_name(choice, no_launches, result, diagnostics);
  } else if (const std::optional<KernelPlan> base = base_plan(result.graph, *gemm, target, diagnostics)) {
    result.plans = plans_of_gemm(result.graph, *base, choice, result, diagnostics);
  }
  for (KernelPlan& plan : result.plans)
    if (plan.schedule.family != Family::pointwise) plan.recipe = build_recipe(result.graph, plan);
  const std::string preferred = result.has_preferred ? schedule_name(result.plans.front().schedule) : "";
  keep_what_fits(result, diagnostics);
  keep_what_counts(result.graph, result.plans, diagnostics);
  result.has_preferred =
      result.has_preferred && !result.plans.empty() && schedule_name(result.plans.front().schedule) == preferred;
  for (const KernelPlan& plan : result.plans) ensure_sound(verify(plan), "planning");
  return result;
}

}  // namespace epifuse::lowering
