#include "compiler/lowering/simplify.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace epifuse::lowering {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;

const Node& node(const Graph& graph, NodeId id) { return graph.nodes[static_cast<size_t>(id)]; }

bool is_number(const Graph& graph, NodeId id, double value) {
  return node(graph, id).op == Op::number && node(graph, id).number == value;
}

// The result of an exact-by-definition operation on numbers, rounded once to f32; functions that the device computes to
// a tolerance only are left to it.
std::optional<double> evaluate(const Graph& graph, const Node& n) {
  double v[3] = {};
  for (size_t i = 0; i < n.args.size(); ++i) {
    if (i >= 3 || node(graph, n.args[i]).op != Op::number) return std::nullopt;
    v[i] = static_cast<float>(node(graph, n.args[i]).number);
  }
  auto rounded = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  switch (n.op) {
    case Op::add: return rounded(v[0] + v[1]);
    case Op::sub: return rounded(v[0] - v[1]);
    case Op::mul: return rounded(v[0] * v[1]);
    case Op::div: return rounded(v[0] / v[1]);
    case Op::neg: return -v[0];
    case Op::abs: return std::fabs(v[0]);
    default: return std::nullopt;
  }
}

// The node that `n` is equal to, if it is equal to one of its arguments.
std::optional<NodeId> same_as_argument(const Graph& graph, const Node& n) {
  switch (n.op) {
    case Op::mul:
      if (is_number(graph, n.args[0], 1)) return n.args[1];
      if (is_number(graph, n.args[1], 1)) return n.args[0];
      break;
    case Op::div:
      if (is_number(graph, n.args[1], 1)) return n.args[0];
      break;
    case Op::neg:
      if (node(graph, n.args[0]).op == Op::neg) return node(graph, n.args[0]).args[0];
      break;
    case Op::select:
      if (node(graph, n.args[0]).op == Op::number) return node(graph, n.args[0]).number != 0 ? n.args[1] : n.args[2];
      break;
    default: break;
  }
  return std::nullopt;
}

// A pointwise value lies over the names of its arguments; an argument that became a number no longer brings any. A half
// follows the value that it is taken from.
void narrow_shape(const Graph& graph, Node& n) {
  if (ir::op_info(n.op).kind == ir::OpKind::map) {
    n.shape.clear();
    for (const NodeId argument : n.args) n.shape = graph.union_of(n.shape, node(graph, argument).shape);
  } else if (n.op == Op::split) {
    ir::Shape shape = node(graph, n.args[0]).shape;
    for (ir::Extent& extent : shape) {
      ir::Extent half = extent;
      if (half.times % 2 == 0)
        half.times /= 2;
      else
        half.over *= 2;
      if (!graph.has_name(n.shape, extent) && graph.has_name(n.shape, half)) extent = half;
    }
    n.shape = std::move(shape);
  }
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
  for (Node& n : graph.nodes) {
    if (n.op == Op::input && graph.inputs[static_cast<size_t>(n.index)].left_out) {
      n.number = *graph.inputs[static_cast<size_t>(n.index)].default_value;
      n.op = Op::number;
      n.index = -1;
      n.shape.clear();
    }
    narrow_shape(graph, n);
  }
  std::erase_if(graph.outputs, [](const ir::Output& output) { return output.left_out; });
  return graph;
}

Graph fold(Graph graph) {
  std::vector<NodeId> becomes(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    becomes[i] = static_cast<NodeId>(i);
    for (NodeId& argument : n.args) argument = becomes[static_cast<size_t>(argument)];
    narrow_shape(graph, n);
    if (const auto same = same_as_argument(graph, n)) {
      becomes[i] = *same;
    } else if (const auto value = evaluate(graph, n)) {
      n.op = Op::number;
      n.number = *value;
      n.args.clear();
      n.shape.clear();
    }
  }
  for (ir::Output& output : graph.outputs) output.value = becomes[static_cast<size_t>(output.value)];
  return graph;
}

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
