// The text form of a plan, and the names of its words.
#include <fmt/format.h>
#include <type_traits>

#include "base/version.h"
#include "compiler/lowering/pointwise.h"
#include "compiler/lowering/schedule_name.h"

namespace epifuse::lowering {
namespace {

std::string loop_name(const Schedule& schedule) {
  if (!schedule.rolled) return "unrolled";
  return fmt::format(
      "rolled{}{}{}{}", schedule.blocks_at_once == 1 ? "" : fmt::format(", {} at once", schedule.blocks_at_once),
      schedule.takes_blocks ? ", fetches blocks" : "", schedule.leaves_out_blocks ? ", up to the last column" : "",
      schedule.places_anew ? ", places found anew" : "");
}

std::string node_text(const ir::Graph& graph, const Epilogue& epilogue, const EpilogueNode& node) {
  switch (node.kind) {
    case EpilogueNode::Kind::accumulator: return fmt::format("accumulator part {}", node.index);
    case EpilogueNode::Kind::param: return fmt::format("param {}", graph.params[static_cast<size_t>(node.index)].name);
    case EpilogueNode::Kind::number: return fmt::format("number {}", node.number);
    case EpilogueNode::Kind::input: {
      const EpilogueInput& in = epilogue.inputs[static_cast<size_t>(node.index)];
      return fmt::format("input {}{}", graph.inputs[static_cast<size_t>(in.input)].tensor.name,
                         in.doubled ? fmt::format(" part {}", in.part) : "");
    }
    case EpilogueNode::Kind::hadamard:
      return fmt::format("hadamard along {} signs {:#06x} %{}", node.along_rows ? "rows" : "columns", node.signs,
                         node.args[0]);
    case EpilogueNode::Kind::map: break;
  }
  std::string text(ir::op_info(node.op).name);
  if (node.op == ir::Op::cast) text += fmt::format(" {}", storage_name(node.to));
  for (const int argument : node.args) text += fmt::format(" %{}", argument);
  return text;
}

template <class T>
std::string bracketed(const std::vector<T>& list) {
  std::string out = "[";
  for (const T& entry : list) {
    if (out.size() > 1) out += ", ";
    if constexpr (std::is_same_v<T, IntExpr>)
      out += entry.text();
    else
      out += std::to_string(entry);
  }
  return out + "]";
}

std::string field_text(const LaunchRecipe& recipe, const ParameterField& field) {
  switch (field.kind) {
    case FieldKind::tensor_map: return fmt::format("map {}", field.index);
    case FieldKind::address:
      if (field.tensor == workspace_name) return "workspace + " + field.value.text();
      return field.tensor.empty() ? "null" : "address of " + field.tensor;
    case FieldKind::param: return "param " + recipe.params[static_cast<size_t>(field.index)].name;
    default: return field.value.text();
  }
}

// A line for each entry, so that a change of the recipe is a change of a few lines.
std::string print_recipe(const KernelPlan& plan) {
  const LaunchRecipe& recipe = plan.recipe;
  std::string out;
  for (const WorkspaceRegion& region : plan.workspace)
    out += fmt::format("workspace {} + {} {}\n", region.offset.text(), region.bytes.text(), region.name);
  for (const RecipeTensor& tensor : recipe.tensors)
    out += fmt::format("buffer {} {}{} align {}{}\n", tensor.name, storage_name(tensor.storage),
                       bracketed(tensor.extents), tensor.alignment, tensor.strided ? " strided" : "");
  for (size_t i = 0; i < recipe.maps.size(); ++i) {
    const TensorMapRecipe& map = recipe.maps[i];
    out += fmt::format("map {} of {} from byte {}: extents {}, strides {}, box {}, steps {}\n", i, map.tensor,
                       map.byte_offset.text(), bracketed(map.extents), bracketed(map.strides), bracketed(map.box),
                       bracketed(map.element_strides));
  }
  for (const RecipeStep& step : recipe.steps) {
    out += fmt::format("launch {}: {} threads, grid {}, {} shared bytes, {} parameter bytes\n", step.entry, step.block,
                       step.grid.text(), step.shared_bytes, step.parameter_bytes);
    for (const ParameterField& field : step.fields)
      out += fmt::format("  {} {} = {}\n", field.offset, field.name, field_text(recipe, field));
  }
  return out;
}

std::string_view broadcast_name(Broadcast broadcast) {
  constexpr std::string_view names[] = {"scalar", "group", "row", "column", "tile"};
  return names[static_cast<size_t>(broadcast)];
}

}  // namespace

std::string_view major_name(Major major) { return major == Major::k ? "k" : "mn"; }

std::string_view deal_name(Deal deal) {
  constexpr std::string_view names[] = {"halves", "alternating", "eights", "blocks", "pieces"};
  return names[static_cast<size_t>(deal)];
}

std::string_view form_name(GemmForm form) {
  constexpr std::string_view names[] = {"none", "dense", "batched", "ragged_rows", "ragged_depth"};
  return names[static_cast<size_t>(form)];
}

std::string_view sink_name(SinkKind kind) {
  constexpr std::string_view names[] = {"rows",      "transposed",  "mx_rows",        "mx_transposed",
                                        "quantised", "reduce_rows", "reduce_columns", "reduce_tiles"};
  return names[static_cast<size_t>(kind)];
}

std::string print(const ir::Graph& graph, const KernelPlan& plan) {
  const Gemm& gemm = plan.gemm;
  const Schedule& s = plan.schedule;
  auto name = [&](ir::InputId id) { return graph.inputs[static_cast<size_t>(id)].tensor.name; };
  std::string out = fmt::format("plan {} {} for {}\n", plan_text_version, plan.kernel, plan.target.name);
  if (gemm.form == GemmForm::none) return out + print_pointwise(graph, plan) + print_recipe(plan);
  const bool pass = s.family == Family::pass;
  out += pass ? fmt::format("pass {}: rows {}, columns {}", form_name(gemm.form), graph.extent_text(gemm.rows),
                            graph.extent_text(gemm.columns))
              : fmt::format("gemm {} {}: rows {}, columns {}, contracts {}", form_name(gemm.form),
                            storage_name(gemm.operand), graph.extent_text(gemm.rows), graph.extent_text(gemm.columns),
                            graph.extent_text(gemm.depth));
  if (gemm.grouped()) out += fmt::format(", groups {}", graph.extent_text(gemm.groups));
  out += "\n";
  for (const auto& [operands, word] : {std::pair{&gemm.a, "rows"}, std::pair{&gemm.b, "columns"}})
    for (const GemmOperand& operand : *operands)
      out += fmt::format("operand {} of {}{}, {}-major\n", word, name(operand.input),
                         operand.half < 0 ? "" : fmt::format(" half {}", operand.half), major_name(operand.major));
  out += fmt::format("parts {}", gemm.parts);
  if (gemm.segments == 2) out += ", two segments";
  if (gemm.split_weight() || gemm.piece != 0) out += fmt::format(", {}", deal_name(plan.deal));
  if (pass)
    out += fmt::format("\nschedule {}, {} CTAs of a multiprocessor, band {}\n", schedule_name(s), s.ctas, s.band);
  else
    out += fmt::format("\nschedule {}, stages {}, band {}, registers {} + {}, loop over blocks {}\n", schedule_name(s),
                       s.stages, s.band, s.registers_producer, s.registers_consumer, loop_name(s));
  if (plan.natural_epilogue) out += "columns stay in natural order\n";
  if (plan.checked_pairs) out += "weight rows are brought in checked pairs\n";
  for (size_t i = 0; i < plan.places.size(); ++i)
    out += fmt::format("place {} {} align {}{}\n", i,
                       plan.places[i].dim < 0 ? "1" : graph.dims[static_cast<size_t>(plan.places[i].dim)].name,
                       plan.places[i].alignment, plan.places[i].local ? ", from each group's start" : "");
  for (const EpilogueInput& in : plan.epilogue.inputs)
    out += fmt::format("load {} as {}{}{}\n", name(in.input), broadcast_name(in.broadcast),
                       in.per_group ? " of the group" : "", in.doubled ? fmt::format(", part {}", in.part) : "");
  for (size_t i = 0; i < plan.epilogue.nodes.size(); ++i)
    out += fmt::format("value %{} = {}\n", i, node_text(graph, plan.epilogue, plan.epilogue.nodes[i]));
  for (const Sink& sink : plan.epilogue.sinks) {
    const ir::Tensor& tensor = graph.outputs[static_cast<size_t>(sink.output)].tensor;
    out += fmt::format("sink {} {} {} place {} from", sink_name(sink.kind), tensor.name, ir::print_type(tensor.type),
                       sink.place);
    for (const int value : sink.values) out += fmt::format(" %{}", value);
    if (sink.reduction == ir::Reduction::sum) out += ", sum";
    if (sink.reduction == ir::Reduction::amax) out += ", amax";
    if (sink.per_group) out += " of each group";
    if (sink.accumulate) out += ", added";
    if (sink.kind == SinkKind::quantised)
      out += fmt::format(", blocks of {} x {}, scales in place {}", sink.quantised.block_rows,
                         sink.quantised.block_columns, sink.quantised.scale_place);
    if (sink.gathered_scales > 1) out += fmt::format(", {} scales at once", sink.gathered_scales);
    out += "\n";
  }
  for (const SharedBuffer& buffer : plan.shared)
    out += fmt::format("shared {} + {} {}\n", buffer.offset, buffer.bytes, buffer.name);
  out += fmt::format("shared total {} of {}\n", plan.shared_bytes, plan.target.shared_bytes_per_block);
  return out + print_recipe(plan);
}

}  // namespace epifuse::lowering
