#include "compiler/lowering/choose_schedule.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace epifuse::lowering {
namespace {

constexpr int operand_row_bytes = 128;
constexpr int barrier_bytes_per_stage = 16;
constexpr int alignment = 1024;  // of a stage and of a slot: the swizzle's pattern

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
    if (node.kind != EpilogueNode::Kind::map) continue;
    switch (node.op) {
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
  for (const Sink& sink : epilogue.sinks)
    for (size_t i = 0; i < sink.values.size(); ++i) switch (sink.kind) {
        case SinkKind::rows: weight += 1; break;
        case SinkKind::transposed: weight += 2; break;
        case SinkKind::mx_rows: weight += 5; break;
        case SinkKind::mx_transposed: weight += 7; break;
      }
  return weight;
}

// Unrolled, the code grows with every block; a loop moves the accumulators down once a block instead. Light epilogues
// are better unrolled: the moves would be most of their work.
bool should_roll(const Epilogue& epilogue, int blocks) { return epilogue_weight(epilogue) * blocks > 40; }

Deal deal_of(const Gemm& gemm) {
  if (gemm.parts == 1 || gemm.piece == 0) return Deal::halves;
  if (gemm.piece == 1) return Deal::alternating;
  if (gemm.piece == 8) return Deal::eights;
  if (gemm.piece == block_columns) return Deal::blocks;
  return Deal::pieces;
}

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
// warpgroup's main loop and cooperative shows most.
double cost_of(const KernelPlan& plan, int64_t depth) {
  const int part_tile = plan.part_tile() * plan.schedule.slices();
  const int64_t tiles = (plan.gemm.part_columns + part_tile - 1) / part_tile;
  const double columns = plan.schedule.tile_columns * plan.schedule.slices();
  const double main_loop = static_cast<double>(tile_rows) * columns * static_cast<double>(depth) / 4096 * 2;
  const int blocks = plan.part_tile() / block_columns;
  const double epilogue = 400 + 4.0 * 32 * epilogue_weight(plan.epilogue) * blocks;
  const double exposed = plan.schedule.cooperative ? 0.75 * epilogue + 0.04 * main_loop
                                                   : std::max(0.0, epilogue - main_loop) + 0.1 * epilogue;
  return static_cast<double>(tiles) * (main_loop * narrowness(plan) + exposed);
}

int rounded(int bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Which scale bytes can be stored together under this schedule (Sink::gathered_scales).
void gather_scales(KernelPlan& plan) {
  const int blocks = plan.part_tile() / block_columns;
  plan.scratch_bytes = 0;
  for (Sink& sink : plan.epilogue.sinks) {
    sink.gathered_scales = 1;
    if (sink.kind == SinkKind::mx_rows) {
      // The pitch is the number of blocks in a row; a half of a doubled output begins at a multiple of its own blocks.
      const int64_t row_blocks = plan.ragged_columns ? 1 : plan.gemm.part_columns / block_columns;
      const bool dealt = sink.values.size() == 2 && plan.deal != Deal::halves;
      for (const int width : {4, 2})
        if (!dealt && blocks % width == 0 && row_blocks % width == 0) {
          sink.gathered_scales = width;
          break;
        }
    } else if (sink.kind == SinkKind::mx_transposed && sink.place != 0 &&
               plan.places[static_cast<size_t>(sink.place)].alignment % tile_rows == 0) {
      sink.gathered_scales = 4;
      sink.scratch = plan.scratch_bytes;
      plan.scratch_bytes += static_cast<int>(sink.values.size()) * plan.part_tile() * 4;
    }
  }
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

}  // namespace

std::vector<KernelPlan> enumerate_plans(const ir::Graph& graph, const KernelPlan& base, Diagnostics& diagnostics) {
  std::vector<KernelPlan> plans;
  std::string refused;
  const int64_t depth = *graph.fixed_value(base.gemm.depth);
  for (const Candidate& candidate : candidates) {
    KernelPlan plan = base;
    plan.schedule.cooperative = candidate.cooperative;
    plan.schedule.tile_columns = candidate.tile_columns;
    plan.schedule.rolled = should_roll(plan.epilogue, plan.part_tile() / block_columns);
    plan.deal = deal_of(plan.gemm);
    const int shared_tile = plan.part_tile() * plan.schedule.slices();
    if (plan.deal == Deal::pieces && plan.gemm.piece % shared_tile != 0) {
      refused =
          fmt::format("split in pieces of {}: no tile of {} columns lies in one piece", plan.gemm.piece, shared_tile);
      continue;
    }
    gather_scales(plan);
    if (!place_buffers(plan, candidate.most_stages)) {
      refused =
          fmt::format("full-tile inputs of {} bytes for each block leave no room for two operand stages in {} bytes",
                      plan.slot_bytes, plan.target.shared_bytes_per_block);
      continue;
    }
    plan.cost = cost_of(plan, depth);
    plans.push_back(std::move(plan));
  }
  if (plans.empty())
    diagnostics.error(graph.nodes[static_cast<size_t>(base.gemm.node)].where, "no plan fits this kernel: " + refused);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const KernelPlan& a, const KernelPlan& b) { return a.cost < b.cost; });
  return plans;
}

}  // namespace epifuse::lowering
