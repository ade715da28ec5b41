#include "compiler/lowering/plan_cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/lowering/value_clusters.h"

namespace epifuse::lowering {
namespace {

// Fitted to launches on a hot H200 (docs/tuning.md says which, and how well it meets them).
struct Constants {
  double multiprocessors = 132;
  double flops_per_cycle = 4096;  // of a multiprocessor, on 16-bit operands
  // Sizes that only a launch has: rows of all groups. A wave that is not full is half full on the average.
  double launch_rows = 32768, unknown_tail = 0.5;
  int64_t launch_groups = 16;

  // What a tile costs beside its main loop: the pipeline fills, turns change hands; and of its epilogue what the other
  // warpgroup's main loop does not hide.
  double pingpong_tile = 700, pingpong_share = 0.12;
  double cooperative_tile = 2600, cooperative_share = 0.7;
  // An epilogue: its start, and cycles of a unit of weight for a block.
  double epilogue_start = 400, block_unit = 100;
  double exposed = 0.5;  // of a main loop: an epilogue that takes more is not hidden well

  // Bytes that a multiprocessor reads and writes in a cycle where outputs are added to, with four rows of old values
  // under way, and the factor on that where registers are left for two.
  double adding_bytes_per_cycle = 23.5, two_rows_ahead = 0.87;
  // … which narrow tiles add to their main loop: its operands leave them no way to memory. Wide tiles hide it.
  double adding_in_narrow_tiles = 0.6;
  // What a multiprocessor has of memory in a cycle; the part of a main loop from which on its traffic is the limit; and
  // waves up to which dealing tiles out costs more than it gains.
  double memory_bytes_per_cycle = 25.5, limited = 0.72, few_waves = 30;
  double rows_in_pairs = 1024;  // of a group, from which on its row tiles are worked on in pairs
  double split_lines = 1.25;  // of a main loop whose weight comes by halves of 128-byte lines, though whole ones exist

  int place_registers = 28;     // what keeps a thread's place in the tile, in the count of registers_of
  double spill = 2;             // factor on a plan that will likely spill
  double one_by_one = 1.1;      // … whose values that share operations are computed one by one
  double other_choice = 1.001;  // … for each choice that is not the planner's: nothing says which of them is good
};
constexpr Constants constants;

// Narrow tiles read more operand bytes for each product, from L2 and from shared memory, and power is what a hot card
// is short of: the cost of a product in a tile of so many columns of a warpgroup.
double narrowness(int tile_columns) {
  if (tile_columns <= 64) return 1.23;
  if (tile_columns <= 96) return 1.1;
  return tile_columns == 160 ? 1.01 : 1;
}

// Slabs of 64 columns are lines of 128 bytes, unless tiles begin between them.
double splitting(const KernelPlan& plan) {
  const int columns = plan.interleaved_weight() ? plan.schedule.tile_columns : plan.part_tile();
  const bool lines = plan.natural_columns() && plan.gemm.part_columns % slab_columns == 0;
  return lines && columns % slab_columns != 0 ? constants.split_lines : 1;
}

int stored_bits(const ir::Tensor& tensor) { return storage_bits(tensor.type.storage()); }

// Whether rows of such a weight begin between lines: then half of all boxes lie across two, whatever the tile.
bool begins_between_lines(const ir::Graph& graph, const KernelPlan& plan) {
  constexpr int line_bits = 128 * 8;
  if (!plan.natural_columns()) return false;
  const ir::Tensor& weight = graph.inputs[static_cast<size_t>(plan.gemm.b[0].input)].tensor;
  const std::optional<int64_t> row = graph.fixed_value(weight.shape.back());
  return row && *row * stored_bits(weight) % line_bits != 0;
}

int operation_weight(ir::Op op) {
  switch (op) {
    case ir::Op::cast: return 5;  // there and back, by instructions of a quarter of the rate
    case ir::Op::sigmoid: return 8;
    case ir::Op::exp:
    case ir::Op::log:
    case ir::Op::div:
    case ir::Op::sqrt: return 10;
    case ir::Op::tanh:
    case ir::Op::erf:
    case ir::Op::erfc: return 25;
    default: return 1;
  }
}

// Of one value.
int sink_weight(SinkKind kind) {
  switch (kind) {
    case SinkKind::rows: return 1;
    case SinkKind::transposed: return 2;
    case SinkKind::mx_rows: return 5;
    case SinkKind::mx_transposed: return 7;
    case SinkKind::quantised: return 14;
    case SinkKind::reduce_rows:
    case SinkKind::reduce_tiles: return 2;
    case SinkKind::reduce_columns: return 3;
  }
  return 0;
}

int weight_of(const Epilogue& epilogue) {
  int weight = 0;
  for (const EpilogueNode& node : epilogue.nodes) {
    // Four additions and a shuffle of a quarter of their rate; along rows two shuffles.
    if (node.kind == EpilogueNode::Kind::hadamard) weight += node.along_rows ? 14 : 10;
    if (node.kind == EpilogueNode::Kind::map) weight += operation_weight(node.op);
  }
  // Blocks as wide as the tile need all values twice.
  if (has_wide_blocks(epilogue)) weight *= 2;
  for (const Sink& sink : epilogue.sinks) weight += static_cast<int>(sink.values.size()) * sink_weight(sink.kind);
  return weight;
}

// Roughly: what is computed at once and stored element by element; rotated blocks that wait; full-tile inputs as they
// are stored; and what addresses and loops take. The block's own accumulators are replaced by its values.
int registers_of(const ir::Graph& graph, const KernelPlan& plan) {
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
      inputs += block_values * stored_bits(graph.inputs[static_cast<size_t>(in.input)].tensor) / 32;
    if (in.broadcast == Broadcast::column) inputs += 8;
    if (in.broadcast == Broadcast::row) inputs += 4;
  }
  return block_values * (most - plan.gemm.parts) + inputs + others;
}

double up(double value, double unit) { return std::ceil(value / unit); }

// Of each part, by both consumer warpgroups.
int columns_of_tile(const KernelPlan& plan) { return plan.part_tile() * plan.schedule.slices(); }
double column_tiles(const KernelPlan& plan) {
  return up(static_cast<double>(plan.gemm.part_columns), columns_of_tile(plan));
}

// How often all multiprocessors take a tile. Where rows are known at launch only, the last time is anybody's guess.
double waves(const ir::Graph& graph, const KernelPlan& plan) {
  const Gemm& gemm = plan.gemm;
  const double columns = column_tiles(plan);
  const auto number = [&](const ir::Extent& extent) { return graph.fixed_value(extent); };
  const std::optional<int64_t> rows = number(gemm.rows);
  const std::optional<int64_t> groups = gemm.form == GemmForm::dense || gemm.form == GemmForm::ragged_rows
                                            ? std::optional<int64_t>(1)
                                            : number(gemm.groups);
  if (!rows || !groups)
    return up(constants.launch_rows, tile_rows) * columns / constants.multiprocessors + constants.unknown_tail;
  const double tiles = up(static_cast<double>(*rows), tile_rows) * static_cast<double>(*groups) * columns;
  return up(tiles, constants.multiprocessors);
}

// A number, or what a group has of the rows that only a launch knows.
double number_or_share(const ir::Graph& graph, const Gemm& gemm, const ir::Extent& extent) {
  if (const std::optional<int64_t> fixed = graph.fixed_value(extent)) return static_cast<double>(*fixed);
  const std::optional<int64_t> groups = gemm.grouped() ? graph.fixed_value(gemm.groups) : std::nullopt;
  return constants.launch_rows / static_cast<double>(std::max<int64_t>(1, groups.value_or(constants.launch_groups)));
}

double depth_of(const ir::Graph& graph, const Gemm& gemm) {
  return up(number_or_share(graph, gemm, gemm.depth), k_tile) * k_tile * gemm.segments;
}

double main_loop_cycles(const ir::Graph& graph, const KernelPlan& plan) {
  return 2.0 * tile_rows * plan.schedule.tile_columns * plan.schedule.slices() * depth_of(graph, plan.gemm) /
         constants.flops_per_cycle;
}

double epilogue_cycles(const KernelPlan& plan, const EpilogueCost& epilogue) {
  // Columns that are contiguous in memory are put in order by shuffles.
  const int straighten = plan.natural_columns() && !plan.natural_epilogue ? 2 * plan.gemm.parts : 0;
  return constants.epilogue_start +
         constants.block_unit * (epilogue.weight + straighten) * (plan.part_tile() / block_columns);
}

// What reading and writing takes of outputs that are added to, a tile.
double adding_cycles(const ir::Graph& graph, const KernelPlan& plan) {
  double bytes = 0;
  for (const Sink& sink : plan.epilogue.sinks)
    if (sink.accumulate)
      bytes += 2.0 * static_cast<double>(sink.values.size()) *
               stored_bits(graph.outputs[static_cast<size_t>(sink.output)].tensor) / 8;
  const double rate = constants.adding_bytes_per_cycle * (plan.leaves_registers() ? 1 : constants.two_rows_ahead);
  return bytes * tile_rows * columns_of_tile(plan) / rate;
}

// Bytes of memory that a tile reads and writes. A band's columns stay in the L2 cache for all rows of a group, and a
// tile's rows for a band; what goes through the epilogue comes and goes once.
double bytes_of_tile(const ir::Graph& graph, const KernelPlan& plan) {
  const Gemm& gemm = plan.gemm;
  const int columns = columns_of_tile(plan);
  const double row_tiles = std::max(1.0, number_or_share(graph, gemm, gemm.rows) / tile_rows);
  const double band = std::min<double>(usual_band, column_tiles(plan));
  double bits = (tile_rows / band + plan.schedule.tile_columns * plan.schedule.slices() / row_tiles) *
                depth_of(graph, gemm) * stored_bits(graph.inputs[static_cast<size_t>(gemm.a[0].input)].tensor);
  for (const EpilogueInput& in : plan.epilogue.inputs)
    if (in.broadcast == Broadcast::tile)
      bits += tile_rows * columns * stored_bits(graph.inputs[static_cast<size_t>(in.input)].tensor);
  for (const Sink& sink : plan.epilogue.sinks)
    if (!is_reduction(sink.kind))
      bits += tile_rows * columns * static_cast<double>(sink.values.size()) * (sink.accumulate ? 2 : 1) *
              stored_bits(graph.outputs[static_cast<size_t>(sink.output)].tensor);
  return bits / 8;
}

}  // namespace

EpilogueCost epilogue_cost(const ir::Graph& graph, const KernelPlan& plan) {
  return {weight_of(plan.epilogue), registers_of(graph, plan)};
}

bool will_spill(const KernelPlan& plan, const EpilogueCost& epilogue) {
  const int saved = plan.schedule.places_anew ? constants.place_registers : 0;
  return plan.schedule.tile_columns + epilogue.registers - saved > plan.schedule.registers_consumer;
}

bool is_exposed(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue) {
  return epilogue_cycles(plan, epilogue) > constants.exposed * main_loop_cycles(graph, plan);
}

bool outlasts_main_loop(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue) {
  return epilogue_cycles(plan, epilogue) > main_loop_cycles(graph, plan);
}

std::string_view why_no_pairs(const KernelPlan& plan) {
  if (plan.gemm.form == GemmForm::ragged_depth) return "a contraction in groups or batches has no pairs";
  if (plan.checked_pairs) return "rows of the weight that are no multiple of 32 are brought for one tile alone";
  return "";
}

TileOrder usual_order(const ir::Graph& graph, const KernelPlan& plan) {
  const double limit = constants.limited * main_loop_cycles(graph, plan);
  const double memory = bytes_of_tile(graph, plan) / constants.memory_bytes_per_cycle;
  TileOrder order;
  order.dynamic = memory > limit && waves(graph, plan) > constants.few_waves;
  if (order.dynamic && adding_cycles(graph, plan) > limit)
    order.band = static_cast<int>(std::clamp<double>(column_tiles(plan), usual_band, most_band));
  order.pairs = !order.dynamic && why_no_pairs(plan).empty() && begins_between_lines(graph, plan) &&
                number_or_share(graph, plan.gemm, plan.gemm.rows) >= constants.rows_in_pairs;
  return order;
}

double launch_cost(const ir::Graph& graph, const KernelPlan& plan, const EpilogueCost& epilogue) {
  const Schedule& schedule = plan.schedule;
  const double main_loop = main_loop_cycles(graph, plan), work = epilogue_cycles(plan, epilogue);
  const double beside = schedule.cooperative ? constants.cooperative_tile + constants.cooperative_share * work
                                             : constants.pingpong_tile + constants.pingpong_share * work +
                                                   std::max(0.0, work - main_loop) / 2;
  const double products = main_loop * narrowness(schedule.tile_columns) * splitting(plan);
  const double adding = adding_cycles(graph, plan);
  const double beside_products = plan.leaves_registers() ? constants.adding_in_narrow_tiles * adding : 0;
  double cost = waves(graph, plan) * (std::max(products + beside_products, adding) + beside);
  if (will_spill(plan, epilogue)) cost *= constants.spill;
  if (schedule.separate) cost *= constants.one_by_one;
  const TileOrder& usual = schedule.usual_order;
  const int others = (schedule.stages != schedule.usual_stages) + (schedule.band != usual.band) +
                     (schedule.dynamic != usual.dynamic) + (schedule.pairs != usual.pairs);
  return cost * std::pow(constants.other_choice, others);
}

}  // namespace epifuse::lowering
