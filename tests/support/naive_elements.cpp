#include "tests/support/naive_elements.h"

#include <cmath>

namespace epifuse::test {

using ir::DimKind;
using ir::Extent;
using Long = long double;

NaiveElement NaiveElements::at(const std::vector<int64_t>& place) {
  NaiveElement result;
  const std::optional<Indices> here = indices(place, result.kind);
  if (!here) return result;
  const bool empty = in_empty_group(*here);
  if (empty && output_.accumulate) {
    result.kind = NaiveElement::Kind::untouched;
  } else if (empty) {
    result.value = exactly(0);
  } else {
    result.value = output_.reduction == ir::Reduction::none ? evaluation_.value(output_.value, *here) : reduced(*here);
  }
  return result;
}

std::optional<Indices> NaiveElements::indices(const std::vector<int64_t>& place, NaiveElement::Kind& kind) const {
  Indices at = NaiveEvaluation::nowhere();
  kind = NaiveElement::Kind::value;
  for (size_t axis = 0; axis < place.size(); ++axis) {
    const Extent& name = output_.tensor.shape[axis];
    const bool aligned = name.dim >= 0 && graph_.dims[static_cast<size_t>(name.dim)].kind == DimKind::aligned;
    int64_t index = place[axis];
    if (sizes_.is_grouped(name) || aligned) {
      kind = NaiveElement::Kind::untouched;
      const std::vector<NaiveSizes::Group>& groups = sizes_.groups(name.dim);
      for (size_t e = 0; e < groups.size(); ++e) {
        if (groups[e].start == groups[e].end) continue;
        if (groups[e].end <= index && index < groups[e].gap_end) kind = NaiveElement::Kind::gap;
        if (index < groups[e].start || index >= groups[e].end) continue;
        kind = NaiveElement::Kind::value;
        if (aligned) index += sizes_.groups(graph_.dims[static_cast<size_t>(name.dim)].base)[e].start - groups[e].start;
        break;
      }
      if (kind != NaiveElement::Kind::value) return std::nullopt;
    }
    at[evaluation_.name(name)] = index;
  }
  return at;
}

// Whether the value lies in a group without rows: a sum over them, by a reduction or by a product.
bool NaiveElements::in_empty_group(const Indices& at) const {
  std::vector<bool> needed(graph_.nodes.size());
  needed[static_cast<size_t>(output_.value)] = true;
  std::vector<ir::DimId> summed;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const ir::Node& node = graph_.nodes[i];
    for (const ir::NodeId arg : node.args) needed[static_cast<size_t>(arg)] = true;
    if (node.op == ir::Op::gemm && sizes_.is_grouped(graph_.base_name(node.along)))
      summed.push_back(graph_.base_name(node.along).dim);
  }
  for (const Extent& name : graph_.nodes[static_cast<size_t>(output_.value)].shape)
    if (sizes_.is_grouped(graph_.base_name(name)) && at[evaluation_.name(name)] < 0)
      summed.push_back(graph_.base_name(name).dim);
  for (const ir::DimId dim : summed) {
    const Extent count = {1, graph_.dims[static_cast<size_t>(dim)].cut_by, 1};
    const int64_t e = at[evaluation_.name(count)];
    if (e < 0) continue;
    const NaiveSizes::Group& group = sizes_.groups(dim)[static_cast<size_t>(e)];
    if (group.start == group.end) return true;
  }
  return false;
}

Estimate NaiveElements::reduced(const Indices& at) {
  Indices inner = at;
  Estimate total = exactly(0);
  add_terms(0, inner, total);
  return total;
}

// The terms over the names of the value from number `next` on that `at` does not have.
void NaiveElements::add_terms(size_t next, Indices& at, Estimate& total) {
  const ir::Shape& shape = graph_.nodes[static_cast<size_t>(output_.value)].shape;
  if (next == shape.size()) {
    const Estimate term = evaluation_.value(output_.value, at);
    if (output_.reduction == ir::Reduction::sum) {
      total = total + term;
      return;
    }
    const Long magnitude = std::fabs(term.value);
    if (magnitude > total.value || std::isnan(magnitude)) total.value = magnitude;
    total.error = std::max(total.error, term.error);
    return;
  }
  const Extent name = graph_.base_name(shape[next]);
  const size_t number = evaluation_.name(name);
  if (at[number] >= 0) return add_terms(next + 1, at, total);
  const auto visit = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      at[number] = i;
      add_terms(next + 1, at, total);
    }
    at[number] = -1;
  };
  if (!sizes_.is_grouped(name)) return visit(0, sizes_.size(name));
  const Extent count = {1, graph_.dims[static_cast<size_t>(name.dim)].cut_by, 1};
  const int64_t chosen = at[evaluation_.name(count)];
  const std::vector<NaiveSizes::Group>& groups = sizes_.groups(name.dim);
  for (size_t e = 0; e < groups.size(); ++e)
    if (chosen < 0 || chosen == static_cast<int64_t>(e)) visit(groups[e].start, groups[e].end);
}

}  // namespace epifuse::test
