// The text form of pointwise launches.
#include <fmt/format.h>

#include "compiler/lowering/pointwise.h"

namespace epifuse::lowering {
namespace {

std::string_view kind_name(PointwiseKind kind) {
  constexpr std::string_view names[] = {"elements", "clear", "blocks", "reduce", "finish", "ends", "rotate"};
  return names[static_cast<size_t>(kind)];
}

class Printer {
 public:
  Printer(const ir::Graph& graph, const PointwiseLaunch& launch) : graph_(graph), launch_(launch) {}

  std::string run() {
    std::string what = fmt::format("%{}", launch_.rotation);
    if (launch_.output >= 0) {
      const ir::Tensor& out = graph_.outputs[static_cast<size_t>(launch_.output)].tensor;
      what = out.name + " " + ir::print_type(out.type);
    }
    text_ = fmt::format("pointwise {} {}, a {} for each item", kind_name(launch_.kind), what,
                        launch_.warps ? "warp" : "thread");
    std::string size;
    for (const PointwiseAxis& axis : launch_.axes)
      if (axis.step > 1) size += fmt::format("{}{}", size.empty() ? " of " : " x ", axis.step);
    text_ += size;
    if (launch_.width > 1) text_ += fmt::format(", {} at once", launch_.width);
    text_ += "\n";
    for (size_t i = 0; i < launch_.axes.size(); ++i) {
      const PointwiseAxis& axis = launch_.axes[i];
      const bool kept = static_cast<int>(i) < launch_.kept;
      text_ += fmt::format("axis {} {}{}{}\n", i, graph_.extent_text(axis.name),
                           axis.place < 0 ? "" : fmt::format(" align {}", axis.alignment),
                           kept                                    ? ""
                           : launch_.kind == PointwiseKind::rotate ? ", rotated"
                           : launch_.kind == PointwiseKind::clear  ? ", in tiles"
                                                                   : ", reduced");
    }
    if (launch_.chunk > 0)
      text_ += fmt::format("partials of {} along {}\n", launch_.chunk, graph_.extent_text(launch_.split.name));
    for (const PointwiseContracted& contracted : launch_.contracted)
      text_ += fmt::format("nothing in empty groups of {}, along axis {}\n", dim(contracted.grouped), contracted.axis);
    for (const PointwiseTable& table : launch_.tables) {
      text_ += fmt::format("groups {} of {} + {}:", table.groups, dim(table.grouped), table.counts);
      for (const PointwiseTable::Place& place : table.places)
        text_ += fmt::format(" {} align {}{} + {}", place.dim < 0 ? "partials" : dim(place.dim), place.alignment,
                             place.unit == 0 ? "" : fmt::format(" in tiles of {}", place.unit), place.starts);
      text_ += "\n";
    }
    for (size_t i = 0; i < launch_.value.coordinates.size(); ++i)
      text_ += fmt::format("coordinate @{} = {}\n", i, coordinate(launch_.value.coordinates[i]));
    for (size_t i = 0; i < launch_.value.nodes.size(); ++i)
      text_ += fmt::format("value %{} = {}\n", i, node(launch_.value.nodes[i]));
    return text_;
  }

 private:
  const std::string& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)].name; }
  const std::string& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)].tensor.name; }

  static std::string address(const std::vector<int>& coordinates) {
    std::string text = "[";
    for (const int c : coordinates) text += fmt::format("{}@{}", text.size() > 1 ? ", " : "", c);
    return text + "]";
  }

  std::string coordinate(const PointwiseCoordinate& c) const {
    using Kind = PointwiseCoordinate::Kind;
    const std::string piece = c.piece == 0 ? "halves" : fmt::format("pieces of {}", c.piece);
    switch (c.kind) {
      case Kind::axis: return fmt::format("axis {}", c.axis);
      case Kind::group: return fmt::format("group of axis {}", c.axis);
      case Kind::group_of: return fmt::format("group of row @{} of {}", c.from, dim(c.dim));
      case Kind::aligned: return fmt::format("place in {} of row @{} of group @{}", dim(c.dim), c.from, c.group);
      case Kind::split:
        return fmt::format("part {} of {} of {} at @{}", c.part, piece, graph_.extent_text(c.whole), c.from);
      case Kind::join: return fmt::format("in its part of {} of {} at @{}", piece, graph_.extent_text(c.whole), c.from);
      case Kind::part: return fmt::format("the part of {} of {} at @{}", piece, graph_.extent_text(c.whole), c.from);
      case Kind::gathered:
        return fmt::format("read from {}{}, below {}", input(c.input), address(c.address), graph_.extent_text(c.whole));
      case Kind::clamped: return fmt::format("@{}, 0 where it is negative", c.from);
    }
    return "";
  }

  std::string node(const PointwiseNode& n) const {
    using Kind = PointwiseNode::Kind;
    switch (n.kind) {
      case Kind::number: return fmt::format("number {}", n.number);
      case Kind::param: return "param " + graph_.params[static_cast<size_t>(n.index)].name;
      case Kind::input:
        return fmt::format("input {}{}{}", input(n.index), address(n.address), n.wide ? " eight at once" : "");
      case Kind::rotated:
        return fmt::format("rotated %{}{}{}", n.index, address(n.address), n.wide ? " eight at once" : "");
      case Kind::masked: return fmt::format("%{}, 0 where @{} is negative", n.args[0], n.condition);
      case Kind::choose: return fmt::format("%{} or %{} by @{}", n.args[0], n.args[1], n.condition);
      case Kind::map: break;
    }
    std::string text(ir::op_info(n.op).name);
    if (n.op == ir::Op::cast) text += fmt::format(" {}", storage_name(n.to));
    for (const int argument : n.args) text += fmt::format(" %{}", argument);
    return text;
  }

  const ir::Graph& graph_;
  const PointwiseLaunch& launch_;
  std::string text_;
};

}  // namespace

std::string print_pointwise(const ir::Graph& graph, const KernelPlan& plan) {
  std::string text;
  for (const PointwiseLaunch& launch : plan.pointwise) text += Printer(graph, launch).run();
  for (const WorkspaceRegion& region : plan.workspace)
    text += fmt::format("workspace {} + {} {}\n", region.offset.text(), region.bytes.text(), region.name);
  return text;
}

}  // namespace epifuse::lowering
