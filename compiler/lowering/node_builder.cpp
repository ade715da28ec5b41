#include "compiler/lowering/node_builder.h"

#include <algorithm>
#include <bit>

namespace epifuse::lowering {

using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;

namespace {

// Operations that the builder makes, and so may find: nothing but operation, arguments and what Key has tells them
// apart.
bool is_findable(const Node& node) {
  return (ir::op_info(node.op).kind == ir::OpKind::map && node.op != Op::cast) || node.op == Op::number ||
         node.op == Op::split || node.op == Op::join;
}

}  // namespace

bool NodeBuilder::is_value(const Node& node) const {
  if (node.op == Op::group_ends || node.op == Op::grad) return false;
  if (node.op != Op::input) return true;
  const Storage storage = graph_.inputs[static_cast<size_t>(node.index)].tensor.type.storage();
  return storage != Storage::i32 && storage != Storage::i64;
}

NodeBuilder::NodeBuilder(ir::Graph& graph) : graph_(graph) {
  for (size_t id = 0; id < graph.nodes.size(); ++id)
    if (is_findable(graph.nodes[id])) known_.emplace(key_of(graph.nodes[id]), static_cast<NodeId>(id));
}

NodeBuilder::Key NodeBuilder::key_of(const Node& node) {
  Key key{node.op, node.args, node.index, node.piece, std::bit_cast<uint64_t>(node.number), {}};
  // The arguments do not say along which name a value is dealt out.
  if (node.op == Op::split || node.op == Op::join)
    for (const Extent& e : node.shape) key.whole.insert(key.whole.end(), {e.times, e.dim, e.over});
  return key;
}

Shape NodeBuilder::shape_of(const std::vector<NodeId>& args) const {
  Shape shape;
  for (const NodeId arg : args) shape = graph_.union_of(shape, node(arg).shape);
  return shape;
}

NodeId NodeBuilder::append(Node node) {
  const NodeId id = static_cast<NodeId>(graph_.nodes.size());
  if (is_findable(node)) known_.emplace(key_of(node), id);
  graph_.nodes.push_back(std::move(node));
  return id;
}

NodeId NodeBuilder::find_or_append(Node node) {
  const auto found = known_.find(key_of(node));
  return found != known_.end() ? found->second : append(std::move(node));
}

NodeId NodeBuilder::number(double value) {
  Node node;
  node.op = Op::number;
  node.number = value;
  return find_or_append(std::move(node));
}

NodeId NodeBuilder::map(Op op, std::vector<NodeId> args) {
  if (op == Op::mul)
    if (const std::optional<NodeId> product = existing_product(args[0], args[1])) return *product;
  Node node;
  node.op = op;
  node.shape = shape_of(args);
  node.args = std::move(args);
  return find_or_append(std::move(node));
}

NodeId NodeBuilder::split(NodeId value, const Extent& whole, int part, int64_t piece) {
  Node node;
  node.op = Op::split;
  node.args = {value};
  node.shape = this->node(value).shape;
  node.index = part;
  node.piece = piece;
  if (!graph_.has_name(node.shape, whole)) return value;
  for (Extent& extent : node.shape)
    if (graph_.same_name(extent, whole)) extent = ir::half(extent);
  return find_or_append(std::move(node));
}

NodeId NodeBuilder::join(NodeId first, NodeId second, const Extent& whole, int64_t piece) {
  Node node;
  node.op = Op::join;
  node.args = {first, second};
  node.piece = piece;
  for (const Extent& extent : shape_of({first, second}))
    if (!graph_.same_name(extent, ir::half(whole))) node.shape.push_back(extent);
  node.shape.push_back(whole);
  return find_or_append(std::move(node));
}

std::optional<NodeId> NodeBuilder::existing_product(NodeId a, NodeId b) const {
  for (int turn = 0; turn < 2; ++turn, std::swap(a, b)) {
    Node node;
    node.op = Op::mul;
    node.args = {a, b};
    if (const auto found = known_.find(key_of(node)); found != known_.end()) return found->second;
  }
  return std::nullopt;
}

std::optional<NodeId> NodeBuilder::broadcast(NodeId value, const Shape& names) {
  for (const Extent& name : names) {
    if (graph_.has_name(node(value).shape, name)) continue;
    std::optional<NodeId> witness;
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& candidate = graph_.nodes[id];
      const bool fits = is_value(candidate) && graph_.has_name(candidate.shape, name) &&
                        graph_.same_names(graph_.union_of(candidate.shape, names), names);
      if (!fits) continue;
      // An input costs the least.
      if (!witness || candidate.op == Op::input) witness = static_cast<NodeId>(id);
      if (candidate.op == Op::input) break;
    }
    if (!witness) return std::nullopt;
    value = map(Op::select, {number(1), value, *witness});
  }
  return value;
}

}  // namespace epifuse::lowering
