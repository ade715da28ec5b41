#include "compiler/lowering/choose_schedule.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "compiler/lowering/column_order.h"
#include "compiler/lowering/plan_cost.h"
#include "compiler/lowering/plan_quantised.h"
#include "compiler/lowering/plan_reductions.h"
#include "compiler/lowering/tile_counter.h"
#include "compiler/lowering/value_clusters.h"

namespace epifuse::lowering {
namespace {

constexpr int operand_row_bytes = 128;
constexpr int barrier_bytes_per_stage = 16;
constexpr int alignment = 1024;  // of a stage and of a slot: the swizzle's pattern
constexpr int most_stages = 16;
constexpr int most_weight_of_code = 50;          // in a loop that still fits into 32 KiB of instructions
constexpr int most_weight_beside_branches = 70;  // heavier epilogues spill where branches fetch accumulators
// Plans that are tried before the last ways out: the narrowest tile, and it with every value by itself.
constexpr std::ptrdiff_t shortlist = most_plans_unasked - 2;

struct TileChoice {
  bool cooperative;
  int tile_columns;  // of a consumer warpgroup: a width that templates/atom/wgmma.cuh has
  int usual_stages;  // more bring nothing
};

// Accumulators take tile_columns registers of a thread: 192 of 240 is the most that leaves room for an epilogue.
// The last is the one that most kernels can have: its refusal is the one that is told.
constexpr TileChoice tile_choices[] = {
    {true, 192, 3},  {true, 160, 4},  {true, 128, 4},  {true, 96, 5},  {true, 64, 6},
    {false, 192, 5}, {false, 160, 6}, {false, 128, 6}, {false, 96, 8}, {false, 64, 8},
};

const TileChoice* find_choice(bool cooperative, int tile_columns) {
  for (const TileChoice& choice : tile_choices)
    if (choice.cooperative == cooperative && choice.tile_columns == tile_columns) return &choice;
  return nullptr;
}

// Unrolled, the code grows with every block; a loop moves the accumulators down once a block instead. Light epilogues
// are better unrolled: the moves would be most of their work.
bool should_roll(const EpilogueCost& epilogue, int blocks) { return epilogue.weight * blocks > 40; }

int rounded_up(int number, int unit) { return (number + unit - 1) / unit * unit; }
int rounded(int bytes) { return rounded_up(bytes, alignment); }

// Full-tile inputs of one block.
int slot_bytes_of(const ir::Graph& graph, const KernelPlan& plan) {
  int bytes = 0;
  for (const EpilogueInput& in : plan.epilogue.inputs)
    if (in.broadcast == Broadcast::tile && plan.brings_box(in))
      bytes += tile_rows * plan.box_columns(in) *
               storage_bits(graph.inputs[static_cast<size_t>(in.input)].tensor.type.storage()) / 8;
  return bytes;
}

// Lays out the shared memory, with the usual number of stages or as many of those as fit, or with `stages`. False when
// that does not fit, or not even two do.
bool place_buffers(KernelPlan& plan, int usual_stages, std::optional<int> stages) {
  Schedule& schedule = plan.schedule;
  // An MN-major weight comes in whole slabs; the tile's last one may reach over its edge.
  const int slice = plan.natural_columns() ? rounded_up(schedule.tile_columns, slab_columns) : schedule.tile_columns;
  const int stage = (tile_rows + schedule.slices() * slice) * operand_row_bytes;
  const int slot = rounded(plan.slot_bytes);
  schedule.tile_input_stages = plan.slot_bytes == 0 ? 1 : std::clamp(32768 / slot, 2, 4);
  const int slots = slot * schedule.tile_input_stages;
  auto total = [&](int count) {
    return count * (stage + barrier_bytes_per_stage) +
           2 * (slots + plan.scratch_bytes + schedule.tile_input_stages * barrier_bytes_per_stage) +
           dealt_tiles_bytes(schedule);
  };
  while (usual_stages > 1 && total(usual_stages) > plan.target.shared_bytes_per_block) --usual_stages;
  schedule.usual_stages = usual_stages;
  schedule.stages = stages.value_or(usual_stages);
  if (schedule.stages < 2 || total(schedule.stages) > plan.target.shared_bytes_per_block) return false;
  plan.shared.clear();
  int at = 0;
  auto put = [&](std::string name, int bytes, bool swizzled = false) {
    if (bytes == 0) return;
    plan.shared.push_back({std::move(name), at, bytes, swizzled});
    at += bytes;
  };
  put("operand stages", schedule.stages * stage, true);
  put("tile inputs of consumer 0", slots, true);
  put("tile inputs of consumer 1", slots, true);
  put("epilogue of consumer 0", plan.scratch_bytes);
  put("epilogue of consumer 1", plan.scratch_bytes);
  put("operand barriers", schedule.stages * barrier_bytes_per_stage);
  put("tile input barriers", 2 * schedule.tile_input_stages * barrier_bytes_per_stage);
  put("dealt tiles", dealt_tiles_bytes(schedule));
  plan.shared_bytes = at;
  return true;
}

// The plans of one kernel: what no schedule changes is found out once.
class Planner {
 public:
  Planner(const ir::Graph& graph, const KernelPlan& base) : graph_(graph), base_(base) {
    base_.slot_bytes = slot_bytes_of(graph, base_);
    epilogue_ = epilogue_cost(graph, base_);
  }

  // Nothing when the kernel cannot run so; why() then says it.
  std::optional<KernelPlan> make(const ScheduleName& wanted) {
    const TileChoice* choice = find_choice(wanted.cooperative, wanted.tile_columns);
    if (!choice) return refuse("there are no such tiles");
    if (wanted.stages && (*wanted.stages < 2 || *wanted.stages > most_stages))
      return refuse(fmt::format("a ring has 2 to {} stages", most_stages));
    if (wanted.band && *wanted.band > most_band)
      return refuse(fmt::format("a band has at most {} column tiles", most_band));
    if (wanted.separate && !shares_operations()) return refuse("no values share operations");
    if (wanted.pairs && !why_no_pairs(base_).empty()) return refuse(std::string(why_no_pairs(base_)));
    if (wanted.pairs && wanted.dynamic) return refuse("tiles are dealt out one by one, and not in pairs");
    KernelPlan plan = base_;
    Schedule& schedule = plan.schedule;
    schedule.cooperative = wanted.cooperative;
    schedule.tile_columns = wanted.tile_columns;
    schedule.separate = wanted.separate;
    schedule.band = wanted.band.value_or(usual_band);
    schedule.dynamic = wanted.dynamic;
    schedule.pairs = wanted.pairs;
    schedule.rolled = should_roll(epilogue_, plan.part_tile() / block_columns);
    // What puts halves together has no registers left.
    if (schedule.rolled && plan.gemm.parts == 1 && works_block_by_block(plan) && !stores_halves_together(plan) &&
        is_exposed(graph_, plan, epilogue_)) {
      schedule.leaves_out_blocks = true;
      if (plan.part_tile() % (2 * block_columns) == 0 && 2 * epilogue_.weight <= most_weight_of_code)
        schedule.blocks_at_once = 2;
    }
    schedule.takes_blocks = schedule.rolled && schedule.blocks_at_once == 1 && plan.gemm.parts == 1 &&
                            plan.leaves_registers() && epilogue_.weight <= most_weight_beside_branches &&
                            !outlasts_main_loop(graph_, plan, epilogue_);
    schedule.places_anew = schedule.rolled && will_spill(plan, epilogue_);
    if (!fits_columns(plan)) return std::nullopt;
    gather_scales(plan);
    place_reductions(graph_, plan);
    place_tile_counter(plan);
    if (!place_scales(graph_, plan, why_)) return std::nullopt;
    if (!place_buffers(plan, choice->usual_stages, wanted.stages))
      return refuse(wanted.stages ? fmt::format("{} stages do not fit into {} bytes of shared memory", *wanted.stages,
                                                plan.target.shared_bytes_per_block)
                                  : fmt::format("full-tile inputs of {} bytes for each block leave no room for two "
                                                "operand stages in {} bytes",
                                                plan.slot_bytes, plan.target.shared_bytes_per_block));
    schedule.usual_order = usual_order(graph_, plan);
    plan.cost = launch_cost(graph_, plan, epilogue_);
    return plan;
  }

  // The same, in the order that suits it; but for pairs, where they are not wanted.
  std::optional<KernelPlan> make_usual(ScheduleName wanted, bool with_pairs = true) {
    std::optional<KernelPlan> plan = make(wanted);
    if (!plan) return plan;
    TileOrder order = plan->schedule.usual_order;
    order.pairs = order.pairs && with_pairs;
    if (order == plan->schedule.order()) return plan;
    wanted.band = order.band;
    wanted.dynamic = order.dynamic;
    wanted.pairs = order.pairs;
    return make(wanted);
  }

  const std::string& why() const { return why_; }

  // Whether computing each value by itself is another way.
  bool shares_operations() const {
    const std::vector<ValueCluster> clusters = value_clusters(base_.epilogue);
    return std::any_of(clusters.begin(), clusters.end(),
                       [&](const ValueCluster& cluster) { return cluster.at_once(base_.epilogue); });
  }

 private:
  std::nullopt_t refuse(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  bool fits_columns(const KernelPlan& plan) {
    const int part = plan.part_tile(), shared_tile = part * plan.schedule.slices();
    if (plan.schedule.tile_columns % (plan.gemm.parts * block_columns) != 0) {
      why_ = fmt::format("a part of {} columns has no whole blocks of {}", part, block_columns);
      return false;
    }
    // One product takes all parts, whose slabs lie one behind the other.
    if (plan.natural_columns() && plan.gemm.parts > 1 && !plan.interleaved_weight() && part % slab_columns != 0) {
      why_ = fmt::format("a part of {} columns has no whole slabs of {}", part, slab_columns);
      return false;
    }
    if (plan.deal == Deal::pieces && plan.gemm.split_weight() && plan.gemm.piece % shared_tile != 0) {
      why_ =
          fmt::format("split in pieces of {}: no tile of {} columns lies in one piece", plan.gemm.piece, shared_tile);
      return false;
    }
    return true;
  }

  const ir::Graph& graph_;
  KernelPlan base_;
  EpilogueCost epilogue_;
  std::string why_;
};

void sort_by_cost(std::vector<KernelPlan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const KernelPlan& a, const KernelPlan& b) { return a.cost < b.cost; });
}

// `impossible` gets the tiles that are not among them, where it is asked for.
std::vector<KernelPlan> usual_plans(Planner& planner, std::vector<ImpossiblePlan>* impossible = nullptr) {
  std::vector<KernelPlan> plans;
  for (const TileChoice& choice : tile_choices) {
    if (std::optional<KernelPlan> plan = planner.make_usual({Family::gemm, choice.cooperative, choice.tile_columns})) {
      plans.push_back(*std::move(plan));
    } else if (impossible) {
      Schedule schedule;
      schedule.cooperative = choice.cooperative;
      schedule.tile_columns = choice.tile_columns;
      impossible->push_back({schedule_name(schedule), planner.why()});
    }
  }
  sort_by_cost(plans);
  return plans;
}

// The bands worth trying, the planner's first: those as wide as the matrix are all the same.
std::vector<int> bands_to_try(int first, int64_t column_tiles) {
  std::vector<int> bands;
  std::set<int64_t> widths;
  for (const int band : {first, usual_band, 2, 4, 16})
    if (widths.insert(std::min<int64_t>(band, column_tiles)).second) bands.push_back(band);
  return bands;
}

// Pingpong first, then by width.
bool is_narrower(const KernelPlan& a, const KernelPlan& b) {
  return std::pair(a.schedule.cooperative, a.schedule.tile_columns) <
         std::pair(b.schedule.cooperative, b.schedule.tile_columns);
}

}  // namespace

int choose_ctas(const ir::Graph& graph, const KernelPlan& plan) {
  constexpr int registers_of_4 = 128, weight_of_4 = 30;
  const EpilogueCost epilogue = epilogue_cost(graph, plan);
  // There are no accumulators.
  const int registers = epilogue.registers + plan.gemm.parts * 32;
  // Codes of a block and what scales it take registers beside its values.
  if (std::any_of(plan.epilogue.sinks.begin(), plan.epilogue.sinks.end(),
                  [](const Sink& sink) { return sink.kind == SinkKind::quantised; }))
    return 2;
  return registers <= registers_of_4 && epilogue.weight <= weight_of_4 ? 4 : 2;
}

std::vector<KernelPlan> enumerate_plans(const ir::Graph& graph, const KernelPlan& base, Diagnostics& diagnostics,
                                        std::vector<ImpossiblePlan>& impossible) {
  Planner planner(graph, base);
  std::vector<KernelPlan> plans = usual_plans(planner, &impossible);
  if (plans.empty()) {
    diagnostics.error(graph.nodes[static_cast<size_t>(base.gemm.nodes[0])].where,
                      "a tile for this kernel is not lowered yet: " + planner.why());
    return plans;
  }
  // Pairs take a few registers more: the best tile by index is tried behind it.
  if (plans[0].schedule.pairs) {
    ScheduleName by_index{Family::gemm, plans[0].schedule.cooperative, plans[0].schedule.tile_columns};
    by_index.band = plans[0].schedule.band;
    if (std::optional<KernelPlan> plan = planner.make(by_index)) plans.insert(plans.begin() + 1, *std::move(plan));
  }
  // For what spills under all of them, without pairs as well: the narrowest tile, then with every value computed by
  // itself.
  const auto narrowest = std::min_element(plans.begin(), plans.end(), is_narrower);
  ScheduleName last{Family::gemm, narrowest->schedule.cooperative, narrowest->schedule.tile_columns};
  if (narrowest != plans.begin())
    if (std::optional<KernelPlan> plan = planner.make_usual(last, false)) *narrowest = *std::move(plan);
  if (narrowest - plans.begin() >= shortlist) std::rotate(plans.begin() + shortlist, narrowest, narrowest + 1);
  plans.resize(std::min(plans.size(), static_cast<size_t>(shortlist + 1)));
  last.separate = true;
  if (std::optional<KernelPlan> plan = planner.make_usual(last, false)) {
    plan->cost = std::max(plan->cost, plans.back().cost);
    plans.push_back(*std::move(plan));
  }
  return plans;
}

std::vector<KernelPlan> all_plans(const ir::Graph& graph, const KernelPlan& base) {
  Planner planner(graph, base);
  std::vector<KernelPlan> plans;
  for (const KernelPlan& usual : usual_plans(planner)) {
    const Schedule& schedule = usual.schedule;
    ScheduleName name{Family::gemm, schedule.cooperative, schedule.tile_columns};
    const int64_t tile = int64_t{usual.part_tile()} * schedule.slices();
    for (const int band : bands_to_try(schedule.band, (base.gemm.part_columns + tile - 1) / tile))
      for (int fewer = 0; fewer <= 2; ++fewer)
        for (const auto& [dynamic, pairs] : {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
          name.stages = schedule.usual_stages - fewer;
          name.band = band;
          name.dynamic = dynamic;
          name.pairs = pairs;
          if (std::optional<KernelPlan> plan = planner.make(name)) plans.push_back(*std::move(plan));
        }
  }
  sort_by_cost(plans);
  return plans;
}

std::optional<KernelPlan> plan_by_name(const ir::Graph& graph, const KernelPlan& base, const ScheduleName& name,
                                       std::string& why) {
  Planner planner(graph, base);
  std::optional<KernelPlan> plan = planner.make(name);
  if (!plan) why = planner.why();
  return plan;
}

}  // namespace epifuse::lowering
