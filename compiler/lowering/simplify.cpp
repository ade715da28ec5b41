#include "compiler/lowering/simplify.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>

#include "compiler/lowering/algebra.h"

namespace epifuse::lowering {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;

// The name that a split halves, if its argument still has it.
std::optional<ir::Extent> halved_name(const Graph& graph, const ir::Shape& whole, const ir::Shape& part) {
  for (const ir::Extent& name : whole)
    if (!graph.has_name(part, name) && graph.has_name(part, ir::half(name))) return name;
  return std::nullopt;
}

// Goes through the nodes in order, each with its arguments as they are now; `replace` may change the node, or give the
// one that stands for it. Values lie over the names of their arguments: one that became a number brings none.
Graph rebuild(const Graph& before, const std::function<std::optional<NodeId>(NodeBuilder&, Node&)>& replace) {
  Graph after = before;
  after.nodes.clear();
  NodeBuilder nodes(after);
  std::vector<NodeId> becomes;
  for (const Node& old : before.nodes) {
    Node n = old;
    for (NodeId& argument : n.args) argument = becomes[static_cast<size_t>(argument)];
    std::optional<NodeId> same;
    if (ir::op_info(n.op).kind == ir::OpKind::map) {
      n.shape = nodes.shape_of(n.args);
    } else if (n.op == Op::split) {
      n.shape = nodes.node(n.args[0]).shape;
      const auto whole = halved_name(after, n.shape, old.shape);
      if (!whole) same = n.args[0];
      for (ir::Extent& extent : n.shape)
        if (whole && extent == *whole) extent = ir::half(extent);
    } else if (n.op == Op::join) {
      const ir::Extent whole = before.whole_name(old);
      n.shape.clear();
      for (const ir::Extent& extent : nodes.shape_of(n.args))
        if (!after.same_name(extent, ir::half(whole))) n.shape.push_back(extent);
      n.shape.push_back(whole);
    } else if (n.op == Op::hadamard) {
      // Also what has become the same along the dimension is rotated there: missing elements are 0.
      const Node& argument = nodes.node(n.args[0]);
      if (argument.op == Op::number && argument.number == 0)
        same = nodes.number(0);
      else if (!after.has_name(argument.shape, n.along))
        n.args[0] = nodes.broadcast(n.args[0], n.shape).value_or(n.args[0]);
      n.shape = nodes.node(n.args[0]).shape;
    }
    if (!same) same = replace(nodes, n);
    becomes.push_back(same ? *same : nodes.append(std::move(n)));
  }
  for (ir::Output& output : after.outputs) {
    const ir::Shape& names = before.nodes[static_cast<size_t>(output.value)].shape;
    output.value = becomes[static_cast<size_t>(output.value)];
    // What is stored may lie over fewer names, but a sum counts every element along those it reduces.
    if (output.reduction == ir::Reduction::none) continue;
    if (const std::optional<NodeId> whole = nodes.broadcast(output.value, names)) output.value = *whole;
  }
  return after;
}

std::string key_of(const Node& n) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}.{}.{}|{}|{}|{}", static_cast<int>(n.op), n.number, n.index, n.piece,
                                static_cast<int>(n.to), n.along.times, n.along.dim, n.along.over, n.promote,
                                n.signs ? static_cast<int64_t>(*n.signs) : -1, n.dim);
  for (const NodeId argument : n.args) key += fmt::format(",{}", argument);
  for (const ir::Extent& e : n.shape) key += fmt::format(";{}.{}.{}", e.times, e.dim, e.over);
  return key;
}

}  // namespace

Graph apply_left_out(Graph graph) {
  const auto is_left_out = [](const ir::Output& output) { return output.left_out; };
  if (std::any_of(graph.outputs.begin(), graph.outputs.end(), is_left_out)) {
    // Random bits follow the place in the spec.
    for (ir::Output& output : graph.outputs)
      if (!output.tensor.type.seed_input.empty()) output.ordinal = graph.ordinal(output);
    std::erase_if(graph.outputs, is_left_out);
  }
  return rebuild(graph, [&](NodeBuilder&, Node& n) {
    if (n.op == Op::input && graph.inputs[static_cast<size_t>(n.index)].left_out) {
      n.number = *graph.inputs[static_cast<size_t>(n.index)].default_value;
      n.op = Op::number;
      n.index = -1;
      n.shape.clear();
    }
    return std::optional<NodeId>();
  });
}

Graph fold(Graph graph) { return rebuild(graph, simplify_node); }

Graph merge_and_prune(Graph graph) {
  std::vector<bool> needed(graph.nodes.size());
  for (const ir::Output& output : graph.outputs) needed[static_cast<size_t>(output.value)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (needed[i])
      for (const NodeId argument : graph.nodes[i].args) needed[static_cast<size_t>(argument)] = true;

  std::vector<NodeId> becomes(graph.nodes.size(), -1);
  std::map<std::string, NodeId> known;
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    Node n = std::move(graph.nodes[i]);
    for (NodeId& argument : n.args) argument = becomes[static_cast<size_t>(argument)];
    const auto [at, fresh] = known.emplace(key_of(n), static_cast<NodeId>(kept.size()));
    if (fresh) kept.push_back(std::move(n));
    becomes[i] = at->second;
  }
  graph.nodes = std::move(kept);
  for (ir::Output& output : graph.outputs) output.value = becomes[static_cast<size_t>(output.value)];
  return graph;
}

}  // namespace epifuse::lowering
