// Names are compared as ir::Graph does, with an aligned dimension taken as the one it aligns.
#include "compiler/semantics/shapes.h"

#include <algorithm>

namespace epifuse::semantics {

using ir::DimId;
using ir::DimKind;
using ir::Extent;
using ir::Graph;
using ir::Shape;

DimId grouped_dim(const Graph& graph, const Extent& extent) {
  const Extent base = graph.base_name(extent);
  return base.dim >= 0 && graph.dims[base.dim].kind == DimKind::grouped ? base.dim : -1;
}

bool has_grouped(const Graph& graph, const Shape& shape, DimId dim) {
  return std::any_of(shape.begin(), shape.end(), [&](const Extent& e) { return grouped_dim(graph, e) == dim; });
}

Shape merge(const Graph& graph, const Shape& a, const Shape& b) {
  const Shape names = graph.union_of(a, b);
  // The names of one operand that are left. A group count that gave way leaves its place to the dimension it counts.
  const auto in_order = [&](const Shape& shape) {
    Shape order;
    for (const Extent& extent : shape) {
      Extent name = graph.base_name(extent);
      if (!graph.has_name(names, name)) {
        for (const Extent& other : names)
          if (const DimId grouped = grouped_dim(graph, other); grouped >= 0 && graph.dims[grouped].cut_by == name.dim)
            name = other;
      }
      if (!graph.has_name(order, name)) order.push_back(name);
    }
    return order;
  };
  Shape first = in_order(a);
  const Shape second = in_order(b);
  if (second.size() > first.size() &&
      std::all_of(first.begin(), first.end(), [&](const Extent& e) { return graph.has_name(second, e); }))
    return second;
  for (size_t i = 0; i < second.size(); ++i) {
    if (graph.has_name(first, second[i])) continue;
    auto place = first.end();
    for (size_t j = i + 1; j < second.size() && place == first.end(); ++j)
      place = std::find(first.begin(), first.end(), second[j]);
    first.insert(place, second[i]);
  }
  return first;
}

Shape replaced(const Graph& graph, Shape shape, const Extent& from, const Extent& to) {
  for (Extent& extent : shape)
    if (graph.same_name(extent, from)) extent = to;
  return shape;
}

Shape without(const Graph& graph, const Shape& shape, const Extent& extent) {
  Shape rest;
  for (const Extent& e : shape)
    if (!graph.same_name(e, extent)) rest.push_back(e);
  return rest;
}

bool is_fixed(const Graph& graph, const Extent& extent) {
  return extent.dim < 0 || graph.dims[extent.dim].kind == DimKind::fixed;
}

}  // namespace epifuse::semantics
