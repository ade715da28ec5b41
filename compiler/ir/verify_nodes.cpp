// Each value of a graph: arity, order, indices, and that its shape follows from its arguments'.
#include "compiler/ir/verify_nodes.h"

#include <fmt/format.h>

namespace epifuse::ir {
namespace {

class NodeVerifier {
 public:
  NodeVerifier(const Graph& graph, NodeId id, std::vector<std::string>& faults)
      : graph_(graph), id_(id), node_(graph.nodes[id]), faults_(faults) {}

  void run() {
    const OpInfo& info = op_info(node_.op);
    const int arity = static_cast<int>(node_.args.size());
    if (info.arity >= 0 && arity != info.arity) return fault("has {} arguments", arity);
    for (NodeId arg : node_.args)
      if (arg < 0 || arg >= id_) return fault("its argument %{} does not come before it", arg);
    for (const Extent& e : node_.shape)
      if (e.dim < -1 || e.dim >= static_cast<int>(graph_.dims.size())) return fault("no such dimension");
    switch (info.kind) {
      case OpKind::leaf: return leaf();
      case OpKind::product: return gemm();
      case OpKind::shape: return shape_op();
      case OpKind::map: return map();
      case OpKind::gradient: return gradient();
    }
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(
        fmt::format("%{} ({}): {}", id_, op_info(node_.op).name, fmt::format(format, std::forward<Args>(args)...)));
  }

  const Shape& arg_shape(size_t i) const { return graph_.nodes[node_.args[i]].shape; }

  void expect(const Shape& shape) {
    if (!graph_.same_names(node_.shape, shape))
      fault("its shape is {}, {} follows", graph_.shape_text(node_.shape), graph_.shape_text(shape));
  }

  void leaf() {
    switch (node_.op) {
      case Op::input:
        if (node_.index < 0 || node_.index >= static_cast<int>(graph_.inputs.size())) return fault("no such input");
        return expect(graph_.inputs[node_.index].tensor.shape);
      case Op::param:
        if (node_.index < 0 || node_.index >= static_cast<int>(graph_.params.size())) return fault("no such param");
        return expect({});
      case Op::group_ends: {
        if (node_.dim < 0 || node_.dim >= static_cast<int>(graph_.dims.size())) return fault("no such dimension");
        const Dimension& dim = graph_.dims[node_.dim];
        if (dim.kind != DimKind::grouped && dim.kind != DimKind::aligned) return fault("{} has no groups", dim.name);
        const DimId base = dim.kind == DimKind::aligned ? dim.base : node_.dim;
        return expect({Extent{1, graph_.dims[base].cut_by, 1}});
      }
      default: return expect({});
    }
  }

  Shape without(const Shape& shape, const Extent& extent) const {
    Shape rest;
    for (const Extent& e : shape)
      if (!graph_.same_name(e, extent)) rest.push_back(e);
    return rest;
  }

  bool is_operand(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (node.op == Op::input) return true;
    return (node.op == Op::split || node.op == Op::gather) && is_operand(node.args[0]);
  }

  void gemm() {
    if (!is_operand(node_.args[0]) || !is_operand(node_.args[1]))
      return fault("an operand is not an input, a part of one, or rows of one");
    const Shape &a = arg_shape(0), &b = arg_shape(1);
    if (!graph_.has_name(a, node_.along) || !graph_.has_name(b, node_.along))
      return fault("{} is not in both operands", graph_.extent_text(node_.along));
    if (node_.promote < 0) return fault("promote {}", node_.promote);
    Shape result = without(graph_.union_of(a, b), node_.along);
    const Extent name = graph_.base_name(node_.along);
    if (name.dim >= 0 && graph_.dims[name.dim].kind == DimKind::grouped)
      result.insert(result.begin(), Extent{1, graph_.dims[name.dim].cut_by, 1});
    expect(result);
  }

  // `whole` with one name halved gives `half`.
  bool halves(const Shape& whole, const Shape& half) const {
    int changed = 0;
    for (const Extent& e : whole) {
      if (graph_.has_name(half, e)) continue;
      if (!graph_.has_name(half, ir::half(e))) return false;
      ++changed;
    }
    return changed == 1 && whole.size() == half.size();
  }

  // `whole` is the parts' names with one of them doubled; parts that are the same along that name may lack it.
  bool doubles(const Shape& parts, const Shape& whole) const {
    for (const Extent& doubled : whole) {
      Shape expected = without(parts, half(doubled));
      expected.push_back(doubled);
      if (graph_.same_names(whole, expected)) return true;
    }
    return false;
  }

  void shape_op() {
    const Shape& first = arg_shape(0);
    switch (node_.op) {
      case Op::split:
        if (node_.index != 0 && node_.index != 1) return fault("part {}", node_.index);
        if (node_.piece < 0) return fault("pieces of {}", node_.piece);
        if (!halves(first, node_.shape))
          fault("its shape {} is not a half of {}", graph_.shape_text(node_.shape), graph_.shape_text(first));
        return;
      case Op::join:
        if (node_.piece < 0) return fault("pieces of {}", node_.piece);
        if (!doubles(graph_.union_of(first, arg_shape(1)), node_.shape))
          fault("its shape {} is not twice {}", graph_.shape_text(node_.shape),
                graph_.shape_text(graph_.union_of(first, arg_shape(1))));
        return;
      case Op::gather:
        if (!graph_.has_name(first, node_.along))
          return fault("its argument has no {}", graph_.extent_text(node_.along));
        if (graph_.nodes[node_.args[1]].op != Op::input) return fault("the index is not an input");
        return expect(graph_.union_of(arg_shape(1), without(first, node_.along)));
      default:
        if (!graph_.has_name(first, node_.along))
          return fault("its argument has no {}", graph_.extent_text(node_.along));
        return expect(first);
    }
  }

  void map() {
    Shape all;
    for (size_t i = 0; i < node_.args.size(); ++i) all = graph_.union_of(all, arg_shape(i));
    expect(all);
    if (node_.op == Op::cast && (node_.to == Storage::e8m0 || node_.to == Storage::e2m1 || node_.to == Storage::i32 ||
                                 node_.to == Storage::i64))
      fault("{} is no type to round to", storage_name(node_.to));
  }

  void gradient() {
    const int xs = static_cast<int>(node_.args.size()) - 2;
    if (xs < 1) return fault("it names no x");
    if (node_.index < 0 || node_.index >= xs) fault("no x{}", node_.index);
  }

  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  std::vector<std::string>& faults_;
};

}  // namespace

void verify_nodes(const Graph& graph, std::vector<std::string>& faults) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) NodeVerifier(graph, id, faults).run();
}

}  // namespace epifuse::ir
