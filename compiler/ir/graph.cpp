// Questions about extents and names that every pass asks.
#include "compiler/ir/graph.h"

#include <algorithm>

namespace epifuse::ir {

Extent half(const Extent& extent) {
  Extent result = extent;
  if (extent.times % 2 == 0)
    result.times = extent.times / 2;
  else
    result.over = extent.over * 2;
  return result;
}

Extent twice(const Extent& extent) {
  Extent result = extent;
  if (extent.over % 2 == 0)
    result.over = extent.over / 2;
  else
    result.times = extent.times * 2;
  return result;
}

std::string Graph::extent_text(const Extent& extent) const {
  if (extent.dim < 0) return std::to_string(extent.times);
  std::string text = dims[extent.dim].name;
  if (extent.times != 1) text = std::to_string(extent.times) + "*" + text;
  if (extent.over != 1) text += "/" + std::to_string(extent.over);
  return text;
}

std::string Graph::shape_text(const Shape& shape) const {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + extent_text(shape[i]);
  return text + "]";
}

Extent Graph::base_name(Extent extent) const {
  if (extent.dim >= 0 && dims[extent.dim].kind == DimKind::aligned) extent.dim = dims[extent.dim].base;
  return extent;
}

Extent Graph::whole_name(const Node& node) const {
  const Shape& whole = node.op == Op::split ? nodes[node.args[0]].shape : node.shape;
  for (const Extent& name : whole) {
    if (has_name(whole, half(name))) continue;
    if (node.op == Op::split) {
      if (!has_name(node.shape, name) && has_name(node.shape, half(name))) return name;
    } else if (has_name(nodes[node.args[0]].shape, half(name)) || has_name(nodes[node.args[1]].shape, half(name))) {
      return name;
    }
  }
  return whole.back();
}

int Graph::ordinal(const Output& output) const {
  if (output.ordinal >= 0) return output.ordinal;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].tensor.name == output.tensor.name) return static_cast<int>(i);
  return 0;
}

std::vector<DimId> Graph::contracted_groups(const Output& output) const {
  if (output.contracted) return *output.contracted;
  std::vector<DimId> found;
  // Arguments come before their users, so one sweep backwards meets every node once, however often it is used.
  std::vector<bool> needed(nodes.size());
  needed[static_cast<size_t>(output.value)] = true;
  for (size_t at = nodes.size(); at-- > 0;) {
    if (!needed[at]) continue;
    const Node& node = nodes[at];
    for (const NodeId argument : node.args) needed[static_cast<size_t>(argument)] = true;
    const DimId dim = base_name(node.along).dim;
    if (node.op != Op::gemm || dim < 0 || dims[dim].kind != DimKind::grouped) continue;
    if (has_name(output.tensor.shape, {1, dims[dim].cut_by, 1}) &&
        std::find(found.begin(), found.end(), dim) == found.end())
      found.push_back(dim);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<int64_t> Graph::fixed_value(const Extent& extent) const {
  if (extent.dim < 0) return extent.times;
  const std::optional<int64_t>& value = dims[extent.dim].value;
  if (dims[extent.dim].kind != DimKind::fixed || !value) return std::nullopt;
  int64_t product = 0;
  if (__builtin_mul_overflow(extent.times, *value, &product) || product % extent.over != 0) return std::nullopt;
  return product / extent.over;
}

bool Graph::has_name(const Shape& shape, const Extent& extent) const {
  return std::any_of(shape.begin(), shape.end(), [&](const Extent& e) { return same_name(e, extent); });
}

Shape Graph::union_of(const Shape& a, const Shape& b) const {
  Shape all;
  for (const Shape* shape : {&a, &b})
    for (const Extent& extent : *shape)
      if (!has_name(all, extent)) all.push_back(base_name(extent));
  Shape result;
  for (const Extent& extent : all) {
    const bool is_group_count = std::any_of(all.begin(), all.end(), [&](const Extent& other) {
      return other.dim >= 0 && dims[other.dim].kind == DimKind::grouped && other.times == 1 && other.over == 1 &&
             extent == Extent{1, dims[other.dim].cut_by, 1};
    });
    if (!is_group_count) result.push_back(extent);
  }
  return result;
}

bool Graph::same_names(const Shape& a, const Shape& b) const {
  auto within = [&](const Shape& part, const Shape& whole) {
    return std::all_of(part.begin(), part.end(), [&](const Extent& e) { return has_name(whole, e); });
  };
  return a.size() == b.size() && within(a, b) && within(b, a);
}

}  // namespace epifuse::ir
