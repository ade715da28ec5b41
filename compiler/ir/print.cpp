// The text form of a graph.
//
// It is also the canonical form in a request, so it holds everything that a later stage may read, each fact in one
// spelling, and nothing else: no positions, and no names of intermediate values. Doubles are printed with the fewest
// digits that read back as the same number.
#include <fmt/format.h>

#include "compiler/ir/graph.h"

namespace epifuse::ir {
namespace {

std::string dimension_line(const Graph& graph, const Dimension& dim) {
  switch (dim.kind) {
    case DimKind::fixed: return dim.value ? fmt::format("dim {} = {}", dim.name, *dim.value) : "dim " + dim.name;
    case DimKind::dynamic: return "dyn " + dim.name;
    case DimKind::aligned: return fmt::format("group {} = {} align {}", dim.name, graph.dims[dim.base].name, dim.align);
    case DimKind::grouped: break;
  }
  return fmt::format("group {} by {} {} {} {}", dim.name, graph.dims[dim.cut_by].name,
                     dim.sizes == GroupSizes::ends ? "ends" : "counts", storage_name(dim.sizes_storage),
                     dim.slot ? "slot " + graph.extent_text(*dim.slot) : fmt::format("align {}", dim.align));
}

std::string tensor_text(const Graph& graph, const Tensor& tensor) {
  std::string text = tensor.name + " : " + print_type(tensor.type);
  const auto split = tensor.shape.begin() + tensor.pointer_axes;
  if (tensor.pointer_axes != 0) text += graph.shape_text(Shape(tensor.shape.begin(), split));
  if (split != tensor.shape.end()) text += graph.shape_text(Shape(split, tensor.shape.end()));
  return text;
}

// What a node says beyond its operation and its arguments.
std::string attributes(const Graph& graph, const Node& node) {
  auto pieces = [&] { return node.piece == 0 ? std::string(" halves") : fmt::format(" pieces of {}", node.piece); };
  switch (node.op) {
    case Op::number: return fmt::format(" {}", node.number);
    case Op::param: return " " + graph.params[node.index].name;
    case Op::input: return " " + graph.inputs[node.index].tensor.name;
    case Op::group_ends: return " " + graph.dims[node.dim].name;
    case Op::gemm: return fmt::format(" over {} promote {}", graph.extent_text(node.along), node.promote);
    case Op::gather: return " rows of " + graph.extent_text(node.along);
    case Op::split: return fmt::format(" part {}{}", node.index, pieces());
    case Op::join: return pieces();
    case Op::hadamard:
      return fmt::format(" along {} signs {:#x}", graph.extent_text(node.along), node.signs.value_or(0));
    case Op::cast: return fmt::format(" to {}", storage_name(node.to));
    case Op::grad: return fmt::format(" x{}", node.index);
    default: return "";
  }
}

std::string_view reduction_text(Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return "";
    case Reduction::sum: return "sum ";
    case Reduction::amax: return "amax ";
  }
  return "";
}

std::string contracted_text(const Graph& graph, const Output& output) {
  if (!output.contracted) return "";
  Shape shape;
  for (const DimId dim : *output.contracted) shape.push_back({1, dim, 1});
  return " contracted " + graph.shape_text(shape);
}

}  // namespace

std::string print(const Graph& graph) {
  std::string text = "kernel " + graph.name + "\n";
  auto line = [&](const std::string& content) { text += "  " + content + "\n"; };

  for (const Dimension& dim : graph.dims) line(dimension_line(graph, dim));
  for (const Param& param : graph.params)
    line(param.default_value ? fmt::format("param {} = {}", param.name, *param.default_value) : "param " + param.name);
  for (const Input& input : graph.inputs)
    line("in " + tensor_text(graph, input.tensor) +
         (input.default_value ? fmt::format(" = {}", *input.default_value) : "") + (input.left_out ? " left out" : ""));
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    std::string content = fmt::format("%{} = {}{}", id, op_info(node.op).name, attributes(graph, node));
    for (size_t i = 0; i < node.args.size(); ++i) content += fmt::format("{} %{}", i ? "," : "", node.args[i]);
    line(content + " : " + graph.shape_text(node.shape));
  }
  for (const Output& output : graph.outputs)
    line(fmt::format("out {} {} {}%{}{}{}{}", tensor_text(graph, output.tensor), output.accumulate ? "+=" : "=",
                     reduction_text(output.reduction), output.value, output.left_out ? " left out" : "",
                     output.ordinal < 0 ? "" : fmt::format(" ordinal {}", output.ordinal),
                     contracted_text(graph, output)));
  return text;
}

}  // namespace epifuse::ir
