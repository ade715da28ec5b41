#include "compiler/codegen/emit_reductions.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/codegen/parameters.h"
#include "compiler/lowering/plan_reductions.h"

namespace epifuse::codegen {
namespace {

using lowering::GemmForm;
using lowering::KernelPlan;
using lowering::Sink;
using lowering::SinkKind;

std::string_view truth(bool value) { return value ? "true" : "false"; }

const ir::Tensor& output_tensor(const ir::Graph& graph, const Sink& sink) {
  return graph.outputs[static_cast<size_t>(sink.output)].tensor;
}

std::string_view reduction_name(const Sink& sink) {
  return sink.reduction == ir::Reduction::sum ? "Reduction::sum" : "Reduction::amax";
}

// "p.partials_y, p.partial_pitch_y"
std::string partials_arguments(const std::string& name) {
  return fmt::format("p.partials_{}, p.partial_pitch_{}", name, name);
}

bool has_reductions(const KernelPlan& plan) {
  return std::any_of(plan.epilogue.sinks.begin(), plan.epilogue.sinks.end(),
                     [](const Sink& sink) { return lowering::is_reduction(sink.kind); });
}

// Where only the contraction is in groups, their results all have the same rows.
bool needs_plan_of_rows(const KernelPlan& plan) { return plan.gemm.form == GemmForm::ragged_depth; }

// `+=` leaves the results of empty groups alone.
bool needs_plan_of_depth(const ir::Graph& graph, const KernelPlan& plan) {
  return plan.gemm.form == GemmForm::ragged_depth && lowering::is_ragged(graph, plan.gemm);
}

std::string finishing_plans(const ir::Graph& graph, const KernelPlan& plan) {
  std::string out;
  if (needs_plan_of_rows(plan))
    out += "struct RowsPlan : Plan {\n  static constexpr Groups groups = Groups::uniform;\n};\n";
  if (needs_plan_of_depth(graph, plan))
    out +=
        "struct DepthPlan : Plan {\n  static constexpr int places = 1;\n"
        "  static EPIFUSE_DEVICE constexpr int alignment(int) { return depth_alignment; }\n};\n";
  return out + "\n";
}

std::string finishing_call(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink, uint32_t block) {
  std::string_view function = "finish_rows", threads = "finish_rows_threads";
  std::string last = std::to_string(sink.place);
  if (sink.kind != SinkKind::reduce_rows) {
    const bool columns = sink.kind == SinkKind::reduce_columns;
    function = columns ? "finish_columns" : "finish_tiles";
    threads = columns ? "finish_columns_threads" : "finish_tiles_threads";
    last = truth(sink.per_group);
  }
  return fmt::format("  static_assert({} == {}, \"the recipe's block\");\n", threads, block) +
         fmt::format("  {}<{}, {}, {}, {}, {}, {}, {}>(p);\n", function, needs_plan_of_rows(plan) ? "RowsPlan" : "Plan",
                     needs_plan_of_depth(graph, plan) && contracts_groups(plan, sink) ? "DepthPlan" : "void",
                     storage_name(output_tensor(graph, sink).type.storage()), reduction_name(sink),
                     truth(sink.accumulate), truth(sink.pointers), last);
}

}  // namespace

bool meets_in_scratch(const Sink& sink) {
  return sink.kind == SinkKind::reduce_columns || sink.kind == SinkKind::reduce_tiles;
}

bool needs_rows_cleared(SinkKind kind) { return kind == SinkKind::reduce_columns || kind == SinkKind::reduce_tiles; }

std::string reduction_includes(const KernelPlan& plan) {
  return has_reductions(plan) ? "#include \"epilogue/reduce.cuh\"\n#include \"kernels/finish.cuh\"\n" : "";
}

std::string open_reduction(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  const std::string& name = output_tensor(graph, sink).name;
  std::string out;
  if (sink.kind == SinkKind::reduce_tiles)
    return fmt::format("    const TilePartials<{}, {}> tile_partials_{}{{scratch + {}}};\n", reduction_name(sink),
                       truth(plan.ragged_columns), name, sink.scratch);
  if (sink.kind == SinkKind::reduce_columns)
    for (size_t part = 0; part < sink.values.size(); ++part)
      out += fmt::format("    const ColumnPartials<{}, {}> column_partials{}_{}{{scratch + {}}};\n",
                         reduction_name(sink), plan.part_tile(), part, name,
                         sink.scratch + static_cast<int>(part) * lowering::column_scratch_bytes(plan));
  return out;
}

std::string put_reduction(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink, int part) {
  const std::string& name = output_tensor(graph, sink).name;
  const bool last = part + 1 == static_cast<int>(sink.values.size());
  std::string out;
  switch (sink.kind) {
    case SinkKind::reduce_rows:
      if (part == 0)
        out = fmt::format("        RowPartials<{}, {}> row_partials_{}(value0, columns);\n", reduction_name(sink),
                          truth(plan.ragged_columns), name);
      else
        out = fmt::format("        row_partials_{}.join(value{}, columns);\n", name, part);
      if (last)
        out += fmt::format(
            "        row_partials_{}.store({}, lane, rows_0, columns, first_column / block_columns + block);\n", name,
            partials_arguments(name));
      return out;
    case SinkKind::reduce_columns:
      return fmt::format("        column_partials{}_{}.put(value{}, lane, columns, block);\n", part, name, part);
    case SinkKind::reduce_tiles:
      if (part == 0)
        out = fmt::format("        float tile_value_{} = tile_partials_{}.of(value0, columns);\n", name, name);
      else
        out = fmt::format(
            "        tile_value_{} = Reduce<{}>::join(tile_value_{}, tile_partials_{}.of(value{}, columns));\n", name,
            reduction_name(sink), name, name, part);
      if (last) out += fmt::format("        tile_partials_{}.put(tile_value_{}, lane, block);\n", name, name);
      return out;
    default: break;
  }
  EPIFUSE_ENSURE(false, "a sink that reduces");
  return out;
}

std::string flush_reduction(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink,
                            const ColumnText& column_of) {
  const std::string& name = output_tensor(graph, sink).name;
  std::string out;
  if (sink.kind == SinkKind::reduce_tiles)
    return fmt::format(
        "      if (index < {})\n"
        "        tile_partials_{}.flush({}, tile.row_tile, first_column + block_columns * index < p.columns,\n"
        "                               first_column / block_columns + index, index);\n",
        plan.part_tile() / lowering::block_columns, name, partials_arguments(name));
  if (sink.kind == SinkKind::reduce_columns)
    for (size_t part = 0; part < sink.values.size(); ++part)
      out += fmt::format("      column_partials{}_{}.flush({}, tile.row_tile, column < p.columns, {}, index);\n", part,
                         name, partials_arguments(name),
                         sink.values.size() == 2 ? column_of(static_cast<int>(part), "column") : "column");
  return out;
}

std::string finishing_entries(const ir::Graph& graph, const KernelPlan& plan) {
  if (!has_reductions(plan)) return "";
  std::string out = finishing_plans(graph, plan);
  const std::vector<RecipeStep> steps = lowering::finishing_steps(graph, plan);
  size_t next = 0;
  for (const Sink& sink : plan.epilogue.sinks) {
    if (!lowering::is_reduction(sink.kind)) continue;
    const RecipeStep& step = steps[next++];
    const std::string parameters = "Finish_" + output_tensor(graph, sink).name;
    out += spell_parameters(step, parameters);
    out +=
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ {} p) {{\n{}}}\n\n",
                    step.block, step.entry, parameters, finishing_call(graph, plan, sink, step.block));
  }
  return out;
}

}  // namespace epifuse::codegen
