#include "compiler/lowering/choose_schedule.h"

#include <algorithm>
#include <fmt/format.h>

#include "compiler/lowering/plan_quantised.h"
#include "compiler/lowering/plan_reductions.h"
#include "compiler/lowering/value_clusters.h"

namespace epifuse::lowering {
namespace {

constexpr int operand_row_bytes = 128;
constexpr int barrier_bytes_per_stage = 16;
constexpr double spill_penalty = 2;           // on the cost of a plan that will likely spill
constexpr int slab_columns = 64;              // of an MN-major weight
constexpr int64_t usual_launch_depth = 2048;  // of a contraction whose extent is known at launch only
constexpr int alignment = 1024;               // of a stage and of a slot: the swizzle's pattern

struct Candidate {
  bool cooperative;
  int tile_columns;
  int most_stages;
};

// Accumulators take tile_columns registers of a thread: 192 of 240 is the most that leaves room for an epilogue.
constexpr Candidate candidates[] = {
    {false, 128, 6},
    {false, 192, 5},
    {true, 128, 4},
    {false, 64, 8},
};

// Instructions of a thread for one block, in rough units: what decides whether the loop over blocks is unrolled, and
// how long an epilogue takes.
int epilogue_weight(const Epilogue& epilogue) {
  int weight = 0;
  for (const EpilogueNode& node : epilogue.nodes) {
    // Four additions and a shuffle of a quarter of their rate; along rows two shuffles.
    if (node.kind == EpilogueNode::Kind::hadamard) weight += node.along_rows ? 14 : 10;
    if (node.kind != EpilogueNode::Kind::map) continue;
    switch (node.op) {
      case ir::Op::cast: weight += 5; break;  // there and back, by instructions of a quarter of the rate
      case ir::Op::sigmoid: weight += 8; break;
      case ir::Op::exp:
      case ir::Op::log:
      case ir::Op::div:
      case ir::Op::sqrt: weight += 10; break;
      case ir::Op::tanh:
      case ir::Op::erf:
      case ir::Op::erfc: weight += 25; break;
      default: weight += 1;
    }
  }
  // Blocks as wide as the tile need all values twice.
  if (has_wide_blocks(epilogue)) weight *= 2;
  for (const Sink& sink : epilogue.sinks)
    for (size_t i = 0; i < sink.values.size(); ++i) switch (sink.kind) {
        case SinkKind::rows: weight += 1; break;
        case SinkKind::transposed: weight += 2; break;
        case SinkKind::mx_rows: weight += 5; break;
        case SinkKind::mx_transposed: weight += 7; break;
        case SinkKind::quantised: weight += 14; break;
        case SinkKind::reduce_rows:
        case SinkKind::reduce_tiles: weight += 2; break;
        case SinkKind::reduce_columns: weight += 3; break;
      }
  return weight;
}

// Unrolled, the code grows with every block; a loop moves the accumulators down once a block instead. Light epilogues
// are better unrolled: the moves would be most of their work.
bool should_roll(const Epilogue& epilogue, int blocks) { return epilogue_weight(epilogue) * blocks > 40; }

// Narrow tiles read more operand bytes for each product and write shorter pieces of rows. Measured hot
// (docs/measurements): 128 columns of a warpgroup cost as much as 192, unless two parts share them, 64 columns each; 64
// columns cost far more.
double narrowness(const KernelPlan& plan) {
  if (plan.schedule.tile_columns < 128) return 1.25;
  if (plan.schedule.tile_columns < 192) return plan.gemm.parts == 2 ? 1.04 : 1.005;
  return 1;
}

// Cycles of one multiprocessor for one row of tiles. Tensor cores do 4096 operations on 16-bit operands in a cycle;
// what tiles waste at the right edge counts like work. Of the epilogue, pingpong hides what fits under the other
// warpgroup's main loop, and two tiles share what does not; cooperative shows most.
double cost_of(const KernelPlan& plan, double depth) {
  const int part_tile = plan.part_tile() * plan.schedule.slices();
  const int64_t tiles = (plan.gemm.part_columns + part_tile - 1) / part_tile;
  const double columns = plan.schedule.tile_columns * plan.schedule.slices();
  const double main_loop = static_cast<double>(tile_rows) * columns * depth / 4096 * 2;
  const int blocks = plan.part_tile() / block_columns;
  const int straighten = plan.gemm.b[0].major == Major::mn ? 2 * plan.gemm.parts : 0;
  const double epilogue = 400 + 4.0 * 32 * (epilogue_weight(plan.epilogue) + straighten) * blocks;
  const double exposed = plan.schedule.cooperative ? 0.9 * epilogue + 0.04 * main_loop
                                                   : std::max(0.0, epilogue - main_loop) / 2 + 0.1 * epilogue;
  return static_cast<double>(tiles) * (main_loop * narrowness(plan) + exposed);
}

// Registers of a thread while a block is computed, roughly: accumulators but for the block's own, which its values
// replace; what is computed at once and stored element by element; rotated blocks that wait; full-tile inputs as they
// are stored; and what addresses and loops take.
int register_estimate(const ir::Graph& graph, const KernelPlan& plan) {
  constexpr int block_values = tile_rows * block_columns / 128, others = 40;
  int most = 0;
  const std::vector<ValueCluster> clusters = value_clusters(plan.epilogue);
  const std::vector<int> waiting = waiting_blocks(plan.epilogue, clusters);
  for (size_t i = 0; i < clusters.size(); ++i) {
    const ValueCluster& cluster = clusters[i];
    int kept = 0;
    for (const int root : cluster.roots)
      for (const SinkGroup& group : cluster.groups)
        if (std::count(group.values.begin(), group.values.end(), root) != 0 &&
            (!group.hadamards.empty() || std::any_of(group.sinks.begin(), group.sinks.end(),
                                                     [](const Sink* s) { return !is_reduction(s->kind); }))) {
          ++kept;
          break;
        }
    most = std::max(most, waiting[i] + (cluster.at_once(plan.epilogue) ? kept : std::min(kept, 1)));
  }
  int inputs = 0;
  for (const EpilogueInput& in : plan.epilogue.inputs) {
    if (in.broadcast == Broadcast::tile)
      inputs += block_values * storage_bits(graph.inputs[static_cast<size_t>(in.input)].tensor.type.storage()) / 32;
    if (in.broadcast == Broadcast::column) inputs += 8;
    if (in.broadcast == Broadcast::row) inputs += 4;
  }
  return plan.schedule.tile_columns + block_values * (most - plan.gemm.parts) + inputs + others;
}

int rounded(int bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Full-tile inputs of one block.
int slot_bytes_of(const ir::Graph& graph, const KernelPlan& plan) {
  int bytes = 0;
  for (const EpilogueInput& in : plan.epilogue.inputs)
    if (in.broadcast == Broadcast::tile && plan.brings_box(in))
      bytes += tile_rows * plan.box_columns(in) *
               storage_bits(graph.inputs[static_cast<size_t>(in.input)].tensor.type.storage()) / 8;
  return bytes;
}

// Lays out the shared memory with as many stages as fit. False when not even two do.
bool place_buffers(KernelPlan& plan, int most_stages) {
  Schedule& schedule = plan.schedule;
  const int stage = (tile_rows + schedule.slices() * schedule.tile_columns) * operand_row_bytes;
  const int slot = rounded(plan.slot_bytes);
  schedule.tile_input_stages = plan.slot_bytes == 0 ? 1 : std::clamp(32768 / slot, 2, 4);
  const int slots = slot * schedule.tile_input_stages;
  auto total = [&](int stages) {
    return stages * (stage + barrier_bytes_per_stage) +
           2 * (slots + plan.scratch_bytes + schedule.tile_input_stages * barrier_bytes_per_stage);
  };
  int stages = most_stages;
  while (stages > 1 && total(stages) > plan.target.shared_bytes_per_block) --stages;
  if (stages < 2) return false;
  schedule.stages = stages;
  plan.shared.clear();
  int at = 0;
  auto put = [&](std::string name, int bytes, bool swizzled = false) {
    if (bytes == 0) return;
    plan.shared.push_back({std::move(name), at, bytes, swizzled});
    at += bytes;
  };
  put("operand stages", stages * stage, true);
  put("tile inputs of consumer 0", slots, true);
  put("tile inputs of consumer 1", slots, true);
  put("epilogue of consumer 0", plan.scratch_bytes);
  put("epilogue of consumer 1", plan.scratch_bytes);
  put("operand barriers", stages * barrier_bytes_per_stage);
  put("tile input barriers", 2 * schedule.tile_input_stages * barrier_bytes_per_stage);
  plan.shared_bytes = at;
  return true;
}

// For what spills under every plan: the narrowest tile, with every value computed by itself.
std::optional<KernelPlan> last_resort(const std::vector<KernelPlan>& plans) {
  const KernelPlan* narrowest = nullptr;
  for (const KernelPlan& plan : plans)
    if (!plan.schedule.cooperative && (!narrowest || plan.schedule.tile_columns < narrowest->schedule.tile_columns))
      narrowest = &plan;
  if (!narrowest) return std::nullopt;
  const std::vector<ValueCluster> clusters = value_clusters(narrowest->epilogue);
  if (std::none_of(clusters.begin(), clusters.end(),
                   [&](const ValueCluster& cluster) { return cluster.at_once(narrowest->epilogue); }))
    return std::nullopt;
  KernelPlan plan = *narrowest;
  plan.schedule.separate = true;
  for (const KernelPlan& other : plans) plan.cost = std::max(plan.cost, 1.1 * other.cost);
  return plan;
}

}  // namespace

int choose_ctas(const ir::Graph& graph, const KernelPlan& plan) {
  constexpr int registers_of_4 = 128, weight_of_4 = 30;
  // There are no accumulators.
  const int registers = register_estimate(graph, plan) - plan.schedule.tile_columns + plan.gemm.parts * 32;
  // Codes of a block and what scales it take registers beside its values.
  if (std::any_of(plan.epilogue.sinks.begin(), plan.epilogue.sinks.end(),
                  [](const Sink& sink) { return sink.kind == SinkKind::quantised; }))
    return 2;
  return registers <= registers_of_4 && epilogue_weight(plan.epilogue) <= weight_of_4 ? 4 : 2;
}

std::vector<KernelPlan> enumerate_plans(const ir::Graph& graph, const KernelPlan& base, Diagnostics& diagnostics) {
  std::vector<KernelPlan> plans;
  std::string refused;
  const auto depth = static_cast<double>(graph.fixed_value(base.gemm.depth).value_or(usual_launch_depth));
  for (const Candidate& candidate : candidates) {
    KernelPlan plan = base;
    plan.schedule.cooperative = candidate.cooperative;
    plan.schedule.tile_columns = candidate.tile_columns;
    plan.schedule.rolled = should_roll(plan.epilogue, plan.part_tile() / block_columns);
    plan.deal = deal_of(plan.gemm);
    plan.slot_bytes = slot_bytes_of(graph, plan);
    const int shared_tile = plan.part_tile() * plan.schedule.slices();
    if (plan.natural_columns() && !plan.interleaved_weight() && plan.part_tile() % slab_columns != 0) {
      refused = fmt::format("a part of {} columns has no whole slabs of {}", plan.part_tile(), slab_columns);
      continue;
    }
    if (plan.deal == Deal::pieces && plan.gemm.split_weight() && plan.gemm.piece % shared_tile != 0) {
      refused =
          fmt::format("split in pieces of {}: no tile of {} columns lies in one piece", plan.gemm.piece, shared_tile);
      continue;
    }
    gather_scales(plan);
    place_reductions(graph, plan);
    if (!place_scales(graph, plan, refused)) continue;
    if (!place_buffers(plan, candidate.most_stages)) {
      refused =
          fmt::format("full-tile inputs of {} bytes for each block leave no room for two operand stages in {} bytes",
                      plan.slot_bytes, plan.target.shared_bytes_per_block);
      continue;
    }
    plan.cost = cost_of(plan, depth);
    if (register_estimate(graph, plan) > plan.schedule.registers_consumer) plan.cost *= spill_penalty;
    plans.push_back(std::move(plan));
  }
  if (std::optional<KernelPlan> last = last_resort(plans)) plans.push_back(std::move(*last));
  if (plans.empty())
    diagnostics.error(graph.nodes[static_cast<size_t>(base.gemm.nodes[0])].where,
                      "a tile for this kernel is not lowered yet: " + refused);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const KernelPlan& a, const KernelPlan& b) { return a.cost < b.cost; });
  return plans;
}

}  // namespace epifuse::lowering
