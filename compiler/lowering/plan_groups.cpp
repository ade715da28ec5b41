#include "compiler/lowering/plan_groups.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/recipe_fields.h"

namespace epifuse::lowering {
namespace {

constexpr uint32_t group_ends_threads = 32;  // as templates/kernels/group_ends.cuh has them

const ir::Dimension& dim_of(const ir::Graph& graph, ir::DimId id) { return graph.dims[static_cast<size_t>(id)]; }

// Whether the runtime can read the dimension off a buffer.
bool stands_in_buffer(const ir::Graph& graph, ir::DimId dim) {
  const auto has = [dim](const ir::Tensor& tensor) {
    return std::any_of(tensor.shape.begin(), tensor.shape.end(), [dim](const ir::Extent& e) { return e.dim == dim; });
  };
  return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](const ir::Input& input) { return !input.left_out && has(input.tensor); }) ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const ir::Output& output) { return !output.left_out && has(output.tensor); });
}

RecipeStep ends_step(const ir::Graph& graph, const ir::Output& output) {
  const ir::DimId grouped = grouped_of_ends(graph, output);
  RecipeStep step;
  step.kind = RecipeStep::Kind::launch;
  step.entry = group_ends_entry(graph, output);
  step.block = group_ends_threads;
  step.grid = 1;
  step.waits = true;
  add_address(step, "group_sizes", ir::group_sizes_name(graph, grouped));
  add_address(step, "out", output.tensor.name);
  add_integer(step, "groups", ir::extent_expression(graph, {1, dim_of(graph, grouped).cut_by, 1}));
  add_integer(step, "capacity", ir::extent_expression(graph, {1, grouped, 1}));
  if (dim_of(graph, grouped).slot) add_integer(step, "slot", slot_rows(graph, grouped));
  close_fields(step);
  return step;
}

}  // namespace

IntExpr slot_rows(const ir::Graph& graph, ir::DimId grouped) {
  const ir::Dimension& dim = dim_of(graph, grouped);
  EPIFUSE_ENSURE(dim.slot.has_value(), "a grouped dimension in slots");
  const ir::Extent& slot = *dim.slot;
  const bool from_capacity =
      slot.dim >= 0 && dim_of(graph, slot.dim).kind == ir::DimKind::dynamic && !stands_in_buffer(graph, slot.dim);
  if (!from_capacity) return ir::extent_expression(graph, slot);
  const IntExpr rows =
      exact_div(ir::extent_expression(graph, {1, grouped, 1}), ir::extent_expression(graph, {1, dim.cut_by, 1}));
  return exact_div(exact_div(rows * slot.over, slot.times) * slot.times, slot.over);
}

bool check_groups(const ir::Graph& graph, Diagnostics& diagnostics) {
  bool sound = true;
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.align <= most_group_align) continue;
    diagnostics.error(dim.where, fmt::format("the alignment {} of '{}' is not lowered", dim.align, dim.name),
                      fmt::format("groups are aligned to {} rows at most", most_group_align));
    sound = false;
  }
  return sound;
}

void describe_groups(const ir::Graph& graph, ir::DimId grouped, RecipeTensor& sizes) {
  const ir::Dimension& dim = dim_of(graph, grouped);
  sizes.group_align = dim.align;
  if (dim.slot) sizes.group_slot = slot_rows(graph, grouped);
}

void describe_groups(const ir::Graph& graph, const std::string& dimension, RecipeTensor& sizes) {
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].name == dimension) return describe_groups(graph, static_cast<ir::DimId>(i), sizes);
  EPIFUSE_ENSURE(false, "sizes of a dimension that the graph has");
}

bool is_group_ends(const ir::Graph& graph, const ir::Output& output) {
  return graph.nodes[static_cast<size_t>(output.value)].op == ir::Op::group_ends;
}

ir::DimId grouped_of_ends(const ir::Graph& graph, const ir::Output& output) {
  const ir::DimId dim = graph.nodes[static_cast<size_t>(output.value)].dim;
  return dim_of(graph, dim).kind == ir::DimKind::aligned ? dim_of(graph, dim).base : dim;
}

std::string group_ends_entry(const ir::Graph& graph, const ir::Output& output) {
  return fmt::format("kernel_{}_ends_{}", graph.name, output.tensor.name);
}

std::vector<RecipeStep> group_ends_steps(const ir::Graph& graph) {
  std::vector<RecipeStep> steps;
  for (const ir::Output& output : graph.outputs)
    if (!output.left_out && is_group_ends(graph, output)) steps.push_back(ends_step(graph, output));
  return steps;
}

}  // namespace epifuse::lowering
