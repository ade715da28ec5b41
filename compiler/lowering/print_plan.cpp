// The text form of a plan, and the names of its words.
#include <fmt/format.h>
#include <type_traits>

#include "base/version.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {
namespace {

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
    case FieldKind::address: return field.tensor.empty() ? "null" : "address of " + field.tensor;
    case FieldKind::param: return "param " + recipe.params[static_cast<size_t>(field.index)].name;
    default: return field.value.text();
  }
}

// A line for each entry, so that a change of the recipe is a change of a few lines.
std::string print_recipe(const LaunchRecipe& recipe) {
  std::string out;
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

std::string_view deal_name(Deal deal) {
  constexpr std::string_view names[] = {"halves", "alternating", "eights", "blocks", "pieces"};
  return names[static_cast<size_t>(deal)];
}

std::string_view form_name(GemmForm form) {
  constexpr std::string_view names[] = {"dense", "ragged_rows"};
  return names[static_cast<size_t>(form)];
}

std::string_view sink_name(SinkKind kind) {
  constexpr std::string_view names[] = {"rows", "transposed", "mx_rows", "mx_transposed"};
  return names[static_cast<size_t>(kind)];
}

std::string schedule_name(const Schedule& schedule) {
  return fmt::format("{} 128x{}", schedule.cooperative ? "cooperative" : "pingpong",
                     schedule.tile_columns * schedule.slices());
}

std::string print(const ir::Graph& graph, const KernelPlan& plan) {
  const Gemm& gemm = plan.gemm;
  const Schedule& s = plan.schedule;
  auto name = [&](ir::InputId id) { return graph.inputs[static_cast<size_t>(id)].tensor.name; };
  std::string out = fmt::format("plan {} {} for {}\n", plan_text_version, plan.kernel, plan.target.name);
  out += fmt::format("gemm {} {}: rows {} of {}, columns {} of {}, contracts {}\n", form_name(gemm.form),
                     storage_name(gemm.operand), graph.extent_text(gemm.rows), name(gemm.a),
                     graph.extent_text(gemm.columns), name(gemm.b), graph.extent_text(gemm.depth));
  out += fmt::format("parts {}", gemm.parts);
  if (gemm.parts == 2) out += fmt::format(", {}", deal_name(plan.deal));
  out += fmt::format("\nschedule {}, stages {}, band {}, registers {} + {}, loop over blocks {}\n", schedule_name(s),
                     s.stages, s.band, s.registers_producer, s.registers_consumer, s.rolled ? "rolled" : "unrolled");
  if (plan.checked_pairs) out += "weight rows are brought in checked pairs\n";
  for (size_t i = 0; i < plan.places.size(); ++i)
    out += fmt::format("place {} {} align {}\n", i,
                       plan.places[i].dim < 0 ? "1" : graph.dims[static_cast<size_t>(plan.places[i].dim)].name,
                       plan.places[i].alignment);
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
    if (sink.gathered_scales > 1) out += fmt::format(", {} scales at once", sink.gathered_scales);
    out += "\n";
  }
  for (const SharedBuffer& buffer : plan.shared)
    out += fmt::format("shared {} + {} {}\n", buffer.offset, buffer.bytes, buffer.name);
  out += fmt::format("shared total {} of {}\n", plan.shared_bytes, plan.target.shared_bytes_per_block);
  return out + print_recipe(plan.recipe);
}

}  // namespace epifuse::lowering
