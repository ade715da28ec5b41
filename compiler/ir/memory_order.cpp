#include "compiler/ir/memory_order.h"

#include <algorithm>

namespace epifuse::ir {
namespace {

bool is_fixed(const Graph& graph, const Extent& extent) {
  return extent.dim < 0 || graph.dims[static_cast<size_t>(extent.dim)].kind == DimKind::fixed;
}

bool has_launch_size(const Graph& graph, const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [&](const Extent& e) { return !is_fixed(graph, e); });
}

Shape gemm_order(const Graph& graph, const Node& gemm) {
  const Shape& a = graph.nodes[static_cast<size_t>(gemm.args[0])].shape;
  const Shape& b = graph.nodes[static_cast<size_t>(gemm.args[1])].shape;
  Shape order, of_a, of_b;
  for (const Extent& extent : gemm.shape) {
    const bool in_a = graph.has_name(a, extent), in_b = graph.has_name(b, extent);
    (in_a == in_b ? order : in_a ? of_a : of_b).push_back(extent);
  }
  if (!has_launch_size(graph, of_a) && has_launch_size(graph, of_b)) std::swap(of_a, of_b);
  order.insert(order.end(), of_a.begin(), of_a.end());
  order.insert(order.end(), of_b.begin(), of_b.end());
  return order;
}

}  // namespace

Shape memory_order(const Graph& graph, NodeId value) {
  const Node& node = graph.nodes[static_cast<size_t>(value)];
  Shape order = node.op == Op::gemm ? gemm_order(graph, node) : node.shape;
  if (node.op != Op::gemm) {
    // A union of a bias and rows may begin with the columns.
    const auto columns =
        std::find_if(order.rbegin(), order.rend(), [&](const Extent& e) { return is_fixed(graph, e); });
    if (columns != order.rend()) std::rotate(columns.base() - 1, columns.base(), order.end());
  }
  for (Extent& extent : order) extent = graph.base_name(extent);
  return order;
}

}  // namespace epifuse::ir
