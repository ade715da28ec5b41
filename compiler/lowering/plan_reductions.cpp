#include "compiler/lowering/plan_reductions.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/plan_groups.h"
#include "compiler/lowering/recipe_fields.h"

namespace epifuse::lowering {
namespace {

constexpr int partial_bytes = 4;  // f32
constexpr int scratch_alignment = 16;
constexpr int warps = 4;  // of a consumer warpgroup

// As templates/kernels/finish.cuh has them.
constexpr uint32_t finish_rows_threads = 1024, finish_columns_threads = 256, finish_tiles_threads = 1024;
constexpr int64_t finished_columns(bool per_group) { return per_group ? 256 : 32; }

const std::string& output_name(const ir::Graph& graph, const Sink& sink) {
  return graph.outputs[static_cast<size_t>(sink.output)].tensor.name;
}

std::string region_name(const ir::Graph& graph, const Sink& sink) { return "partials " + output_name(graph, sink); }

IntExpr group_count(const ir::Graph& graph, const Gemm& gemm) { return ir::extent_expression(graph, gemm.groups); }

IntExpr part_columns(const ir::Graph& graph, const Gemm& gemm) { return ir::extent_expression(graph, gemm.columns); }

// Of the output of reduce_columns.
IntExpr all_columns(const ir::Graph& graph, const Gemm& gemm, const Sink& sink) {
  return part_columns(graph, gemm) * static_cast<int64_t>(sink.values.size());
}

IntExpr column_blocks(const ir::Graph& graph, const Gemm& gemm) {
  return ceil_div(part_columns(graph, gemm), block_columns);
}

// Elements from one partial to the next along the first axis, and along the whole of it.
struct PartialsShape {
  IntExpr count, pitch;
};

PartialsShape partials_shape(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  switch (sink.kind) {
    case SinkKind::reduce_rows: return {column_blocks(graph, plan.gemm), all_rows(graph, plan.gemm)};
    case SinkKind::reduce_columns: return {most_row_tiles(graph, plan), all_columns(graph, plan.gemm, sink)};
    case SinkKind::reduce_tiles: return {most_row_tiles(graph, plan), column_blocks(graph, plan.gemm)};
    default: break;
  }
  EPIFUSE_ENSURE(false, "a sink that reduces");
  return {};
}

int scratch_of(const KernelPlan& plan, const Sink& sink) {
  switch (sink.kind) {
    case SinkKind::reduce_columns: return static_cast<int>(sink.values.size()) * column_scratch_bytes(plan);
    case SinkKind::reduce_tiles: return plan.part_tile() / block_columns * warps * partial_bytes;
    default: return 0;
  }
}

IntExpr grid_of(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  const IntExpr groups = sink.per_group ? group_count(graph, plan.gemm) : IntExpr(1);
  switch (sink.kind) {
    case SinkKind::reduce_rows: return most_row_tiles(graph, plan);
    case SinkKind::reduce_columns:
      return groups * ceil_div(all_columns(graph, plan.gemm, sink), finished_columns(sink.per_group));
    default: return groups;
  }
}

uint32_t threads_of(SinkKind kind) {
  switch (kind) {
    case SinkKind::reduce_rows: return finish_rows_threads;
    case SinkKind::reduce_columns: return finish_columns_threads;
    default: return finish_tiles_threads;
  }
}

RecipeStep finishing_step(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  const Gemm& gemm = plan.gemm;
  RecipeStep step;
  step.kind = RecipeStep::Kind::launch;
  step.entry = finishing_entry(graph, sink);
  step.block = threads_of(sink.kind);
  step.grid = grid_of(graph, plan, sink);
  step.waits = true;
  add_address(step, "group_sizes",
              is_ragged(graph, gemm) ? ir::group_sizes_name(graph, grouped_extent(gemm).dim) : std::string());
  add_address(step, "partials", std::string(workspace_name), plan.region(region_name(graph, sink)).offset);
  add_address(step, "out", output_name(graph, sink));
  add_integer(step, "groups", group_count(graph, gemm));
  add_integer(step, "capacity",
              gemm.form == GemmForm::ragged_depth ? ir::extent_expression(graph, gemm.depth) : all_rows(graph, gemm));
  add_integer(step, "batch_rows", ir::extent_expression(graph, gemm.rows));
  if (in_slots(graph, gemm)) add_integer(step, "slot", slot_rows(graph, grouped_extent(gemm).dim));
  add_integer(step, "partial_pitch", partials_shape(graph, plan, sink).pitch);
  if (sink.kind == SinkKind::reduce_columns) add_integer(step, "columns", all_columns(graph, gemm, sink));
  if (sink.kind == SinkKind::reduce_rows) add_integer(step, "blocks", column_blocks(graph, gemm));
  close_fields(step);
  return step;
}

}  // namespace

int column_scratch_bytes(const KernelPlan& plan) { return plan.part_tile() * warps * partial_bytes; }

IntExpr all_rows(const ir::Graph& graph, const Gemm& gemm) {
  const IntExpr rows = ir::extent_expression(graph, gemm.rows);
  const bool repeated = gemm.form == GemmForm::batched || gemm.form == GemmForm::ragged_depth;
  return repeated ? group_count(graph, gemm) * rows : rows;
}

IntExpr most_row_tiles(const ir::Graph& graph, const KernelPlan& plan) {
  const Gemm& gemm = plan.gemm;
  const IntExpr rows = ir::extent_expression(graph, gemm.rows), groups = group_count(graph, gemm);
  const IntExpr tiles = ceil_div(rows, tile_rows);
  // A group has less than a tile more than its rows, or than its rows and gap where the gap may fill tiles.
  int64_t gap = 0;
  for (const Place& place : plan.places)
    if (tile_rows % place.alignment != 0) gap = std::max(gap, place.alignment - 1);
  if (gemm.form != GemmForm::ragged_rows) return groups * ceil_div(rows + gap, tile_rows);
  if (gap == 0) return min(rows, tiles + groups);
  return tiles + groups * ((gap + tile_rows - 1 + tile_rows - 1) / tile_rows);
}

std::string finishing_entry(const ir::Graph& graph, const Sink& sink) {
  return fmt::format("kernel_{}_finish_{}", graph.name, output_name(graph, sink));
}

void place_reductions(const ir::Graph& graph, KernelPlan& plan) {
  for (Sink& sink : plan.epilogue.sinks) {
    if (!is_reduction(sink.kind)) continue;
    if (const int bytes = scratch_of(plan, sink); bytes != 0) {
      sink.scratch = (plan.scratch_bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
      plan.scratch_bytes = sink.scratch + bytes;
    }
    const PartialsShape shape = partials_shape(graph, plan, sink);
    plan.add_region(region_name(graph, sink), shape.count * shape.pitch * partial_bytes);
  }
}

void add_partials_fields(const ir::Graph& graph, const KernelPlan& plan, RecipeStep& step) {
  for (const Sink& sink : plan.epilogue.sinks)
    if (is_reduction(sink.kind))
      add_address(step, "partials_" + output_name(graph, sink), std::string(workspace_name),
                  plan.region(region_name(graph, sink)).offset);
  // Not "partials_pitch_x": that is the field of an output called pitch_x.
  for (const Sink& sink : plan.epilogue.sinks)
    if (is_reduction(sink.kind))
      add_integer(step, "partial_pitch_" + output_name(graph, sink), partials_shape(graph, plan, sink).pitch);
}

std::vector<RecipeStep> finishing_steps(const ir::Graph& graph, const KernelPlan& plan) {
  std::vector<RecipeStep> steps;
  for (const Sink& sink : plan.epilogue.sinks)
    if (is_reduction(sink.kind)) steps.push_back(finishing_step(graph, plan, sink));
  return steps;
}

}  // namespace epifuse::lowering
