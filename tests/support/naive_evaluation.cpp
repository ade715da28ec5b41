#include "tests/support/naive_evaluation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/naive_layout.h"

namespace epifuse::test {

using ir::DimKind;
using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;

NaiveSizes::NaiveSizes(const ir::Graph& graph, const interpreter::Buffers& inputs) : graph_(graph) {
  groups_.resize(graph.dims.size());
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].value) sizes_[static_cast<int>(i)] = *graph.dims[i].value;
  const auto learn = [&](const ir::Tensor& tensor) {
    const auto found = inputs.find(tensor.name);
    if (found == inputs.end()) return;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const Extent& extent = tensor.shape[axis];
      if (extent.dim >= 0 && !sizes_.contains(extent.dim))
        sizes_[extent.dim] = found->second.extents[axis] * extent.over / extent.times;
    }
  };
  for (const ir::Input& input : graph.inputs) learn(input.tensor);
  for (const ir::Output& output : graph.outputs) learn(output.tensor);
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const ir::Dimension& dim = graph.dims[i];
    if (dim.kind != DimKind::grouped) continue;
    // A slot's size that stands in no tensor: the rows are all slots.
    if (dim.slot && dim.slot->dim >= 0 && !sizes_.contains(dim.slot->dim))
      sizes_[dim.slot->dim] = sizes_.at(static_cast<int>(i)) / sizes_.at(dim.cut_by) * dim.slot->over / dim.slot->times;
    const bool ends = dim.sizes == ir::GroupSizes::ends;
    const interpreter::HostTensor& given = inputs.at(dim.name + (ends ? ".ends" : ".counts"));
    int64_t before = 0;
    for (int64_t e = 0; e < sizes_.at(dim.cut_by); ++e) {
      const auto number = static_cast<int64_t>(decode_naively(given.storage, given.bytes, e));
      int64_t start = dim.slot ? e * size(*dim.slot) : (before + dim.align - 1) / dim.align * dim.align;
      const int64_t end = ends ? number : start + number;
      if (end < start) start = end;  // of an empty group that says where the one before ends
      const int64_t gap_end = dim.slot ? end : (end + dim.align - 1) / dim.align * dim.align;
      groups_[i].push_back({start, end, gap_end});
      before = end;
    }
    // Rows that no buffer has, but for those of an aligned dimension, are as many as there are groups for.
    const int64_t room = sizes_.try_emplace(static_cast<int>(i), before).first->second;
    for (Group& group : groups_[i]) group.gap_end = std::min(group.gap_end, room);
  }
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const ir::Dimension& dim = graph.dims[i];
    if (dim.kind != DimKind::aligned) continue;
    const std::vector<Group>& base = groups_[static_cast<size_t>(dim.base)];
    if (!sizes_.contains(static_cast<int>(i))) {
      const int64_t room = sizes_.at(dim.base) + static_cast<int64_t>(base.size()) * (dim.align - 1);
      sizes_[static_cast<int>(i)] = room / dim.align * dim.align;
    }
    int64_t start = 0;
    for (const Group& group : base) {
      const int64_t end = start + group.end - group.start, next = (end + dim.align - 1) / dim.align * dim.align;
      groups_[i].push_back({start, end, next});
      start = next;
    }
  }
}

int64_t NaiveSizes::size(const Extent& extent) const {
  return extent.times * (extent.dim < 0 ? 1 : sizes_.at(extent.dim)) / extent.over;
}

bool NaiveSizes::is_grouped(const Extent& name) const {
  return name.dim >= 0 && name.times == 1 && name.over == 1 &&
         graph_.dims[static_cast<size_t>(name.dim)].kind == DimKind::grouped;
}

int64_t NaiveSizes::group_of(ir::DimId dim, int64_t row) const {
  const std::vector<Group>& all = groups(dim);
  for (size_t e = 0; e < all.size(); ++e)
    if (all[e].start <= row && row < all[e].end) return static_cast<int64_t>(e);
  return -1;
}

size_t IndicesHash::operator()(const Indices& at) const {
  size_t hash = 0;
  for (const int64_t index : at) hash = hash * 1099511628211u + static_cast<size_t>(index + 1);
  return hash ^ (hash >> 29);
}

NaiveEvaluation::NaiveEvaluation(const ir::Graph& graph, const interpreter::Buffers& inputs,
                                 std::map<std::string, double> params)
    : graph_(graph), inputs_(inputs), params_(std::move(params)), sizes_(graph, inputs), known_(graph.nodes.size()) {
  const auto learn = [&](const Extent& extent) {
    const Extent base = graph.base_name(extent);
    if (std::find(names_.begin(), names_.end(), base) == names_.end()) names_.push_back(base);
  };
  for (const Node& node : graph.nodes)
    for (const Extent& extent : node.shape) learn(extent);
  for (const ir::Output& output : graph.outputs)
    for (const Extent& extent : output.tensor.shape) learn(extent);
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == DimKind::grouped) learn({1, dim.cut_by, 1});
  if (names_.size() > Indices().size()) throw std::logic_error("more names than the naive evaluation takes");
  for (const Node& node : graph.nodes) {
    names_of_node_.emplace_back();
    for (const Extent& extent : node.shape) names_of_node_.back().push_back(name(extent));
  }
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const Extent rows = {1, static_cast<ir::DimId>(i), 1};
    if (graph.dims[i].kind != DimKind::grouped || std::find(names_.begin(), names_.end(), rows) == names_.end())
      continue;
    cuts_.push_back({name({1, graph.dims[i].cut_by, 1}), name(rows), rows.dim});
  }
}

Indices NaiveEvaluation::nowhere() {
  Indices at;
  at.fill(-1);
  return at;
}

size_t NaiveEvaluation::name(const Extent& extent) const {
  const auto found = std::find(names_.begin(), names_.end(), graph_.base_name(extent));
  if (found == names_.end()) throw std::logic_error("no value has the name " + graph_.extent_text(extent));
  return static_cast<size_t>(found - names_.begin());
}

int64_t NaiveEvaluation::index_of(size_t name, const Indices& at) const {
  if (at[name] >= 0) return at[name];
  // E at a row of M.
  for (const Cut& cut : cuts_)
    if (cut.count == name && at[cut.rows] >= 0) return sizes_.group_of(cut.dim, at[cut.rows]);
  throw std::logic_error("no index for " + graph_.extent_text(names_[name]));
}

Indices NaiveEvaluation::restricted(NodeId node, const Indices& at) const {
  Indices result = nowhere();
  for (const size_t name : names_of_node_[static_cast<size_t>(node)]) result[name] = index_of(name, at);
  return result;
}

Estimate NaiveEvaluation::value(NodeId id, const Indices& at) {
  const Indices here = restricted(id, at);
  // To read an input again is quicker than to remember it.
  if (graph_.nodes[static_cast<size_t>(id)].op == Op::input) return compute(id, here);
  Memory& memory = known_[static_cast<size_t>(id)];
  if (const auto known = memory.find(here); known != memory.end()) return known->second;
  const Estimate result = compute(id, here);
  memory[here] = result;
  return result;
}

Estimate NaiveEvaluation::compute(NodeId id, const Indices& at) {
  const Node& node = graph_.nodes[static_cast<size_t>(id)];
  switch (node.op) {
    case Op::number: return exactly(static_cast<float>(node.number));
    case Op::param: {
      const ir::Param& param = graph_.params[static_cast<size_t>(node.index)];
      const auto given = params_.find(param.name);
      return exactly(static_cast<float>(given == params_.end() ? param.default_value.value() : given->second));
    }
    case Op::input: return input(graph_.inputs[static_cast<size_t>(node.index)], at);
    case Op::gemm: return gemm(node, at);
    case Op::gather: return gather(node, at);
    case Op::split: return value(node.args[0], before_split(node, at));
    case Op::join: {
      int part = 0;
      const Indices inner = before_join(node, at, part);
      return value(node.args[static_cast<size_t>(part)], inner);
    }
    case Op::grad: return gradient(node, at);
    case Op::hadamard: return hadamard(node, at);
    case Op::group_ends: throw std::logic_error("the naive evaluation does not have this operation");
    default: break;
  }
  std::vector<Estimate> args;
  for (const NodeId arg : node.args) args.push_back(value(arg, at));
  return apply_naively(node, args);
}

Estimate NaiveEvaluation::input(const ir::Input& declared, const Indices& at) {
  const ir::Tensor& tensor = declared.tensor;
  const auto found = inputs_.find(tensor.name);
  if (declared.left_out || found == inputs_.end()) return exactly(static_cast<float>(declared.default_value.value()));
  int64_t position = 0;
  std::vector<int64_t> places;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const Extent& name = tensor.shape[axis];
    int64_t place = index_of(name, at);
    if (name.dim >= 0 && graph_.dims[static_cast<size_t>(name.dim)].kind == DimKind::aligned) {
      const ir::DimId base = graph_.dims[static_cast<size_t>(name.dim)].base;
      const int64_t e = sizes_.group_of(base, place);
      place += sizes_.groups(name.dim).at(static_cast<size_t>(e)).start -
               sizes_.groups(base).at(static_cast<size_t>(e)).start;
    }
    position = position * found->second.extents[axis] + place;
    places.push_back(place);
  }
  const long double code = decode_naively(found->second.storage, found->second.bytes, position);
  return tensor.type.scaled() ? dequantised(tensor, places, code, at) : exactly(code);
}

Estimate NaiveEvaluation::input(const std::string& name, const Indices& at) {
  for (const ir::Input& declared : graph_.inputs)
    if (declared.tensor.name == name) return input(declared, at);
  throw std::logic_error("no input has the name " + name);
}

Estimate NaiveEvaluation::dequantised(const ir::Tensor& tensor, std::vector<int64_t> place, long double code,
                                      const Indices& at) {
  const NaiveScaleLayout layout(sizes_, tensor);
  const interpreter::HostTensor& scales = inputs_.at(tensor.name + ".scale");
  // Where each block's scale lies is not known from this end: all are looked at, once.
  std::map<std::vector<int64_t>, int64_t>& positions = scale_positions_[tensor.name];
  for (int64_t i = positions.empty() ? 0 : scales.elements(); i < scales.elements(); ++i)
    if (NaiveScaleLayout::Place of = layout.place(i, scales.extents); of.kind == NaiveScaleLayout::Place::Kind::block)
      positions[of.block] = i;
  for (size_t axis = 0; axis < place.size(); ++axis) place[axis] /= layout.block_size(axis);
  long double value = code * decode_naively(scales.storage, scales.bytes, positions.at(place));
  if (!tensor.type.amax_input.empty()) value = value * input(tensor.type.amax_input, at).value / 2688;
  // A value is an f32; a computation in double may keep digits that it does not have.
  const auto rounded = static_cast<float>(value);
  return {rounded, rounded == value || std::isnan(rounded) ? 0 : std::fabs(value) * 0x1p-24L};
}

Estimate NaiveEvaluation::gemm(const Node& node, const Indices& at) {
  const size_t name = this->name(node.along);
  int64_t begin = 0, end = sizes_.size(node.along);
  const Extent base = graph_.base_name(node.along);
  if (sizes_.is_grouped(base)) {
    // Contracting M leaves E.
    const Extent count = {1, graph_.dims[static_cast<size_t>(base.dim)].cut_by, 1};
    const NaiveSizes::Group& group = sizes_.groups(base.dim).at(static_cast<size_t>(index_of(count, at)));
    begin = group.start, end = group.end;
  }
  // The sum of magnitudes bounds what double loses in any order.
  long double sum = 0, magnitude = 0;
  Indices inner = at;
  for (int64_t k = begin; k < end; ++k) {
    inner[name] = k;
    const long double product = value(node.args[0], inner).value * value(node.args[1], inner).value;
    sum += product;
    magnitude += std::fabs(product);
  }
  const auto depth = static_cast<long double>(end - begin);
  return {sum, magnitude == std::fabs(sum) && depth <= 1 ? 0 : depth * 0x1p-53L * magnitude};
}

// One of 16 sums of the 16 elements around it, counted from where the group starts.
Estimate NaiveEvaluation::hadamard(const Node& node, const Indices& at) {
  const size_t name = this->name(node.along);
  const Extent base = graph_.base_name(node.along);
  int64_t begin = 0, end = sizes_.size(node.along);
  if (sizes_.is_grouped(base)) {
    const NaiveSizes::Group& group =
        sizes_.groups(base.dim).at(static_cast<size_t>(sizes_.group_of(base.dim, at[name])));
    begin = group.start, end = group.end;
  }
  const int64_t own = (at[name] - begin) % 16, first = at[name] - own;
  const uint32_t signs = node.signs.value_or(0);
  Estimate sum = exactly(0);
  long double magnitude = 0, error = 0;
  // Sums of a few small numbers of few digits have no rounding: multiples of 2^-30, below 2^16 in all.
  bool exact = true;
  Indices inner = at;
  for (int64_t r = 0; r < std::min<int64_t>(16, end - first); ++r) {
    inner[name] = first + r;
    const Estimate x = value(node.args[0], inner);
    int minus = static_cast<int>(signs >> r & 1);
    for (int64_t both = r & own; both != 0; both /= 2) minus += static_cast<int>(both % 2);
    sum.value += minus % 2 ? -x.value : x.value;
    magnitude += std::fabs(x.value);
    error += x.error;
    exact = exact && x.error == 0 && x.value * 0x1p30L == std::rint(x.value * 0x1p30L);
  }
  if ((exact && magnitude < 0x1p16L) || !std::isfinite(magnitude)) return {sum.value / 4, error / 4};
  return {sum.value / 4, error / 4 + magnitude * 0x1p-50L};
}

Estimate NaiveEvaluation::gather(const Node& node, const Indices& at) {
  const auto row = static_cast<int64_t>(value(node.args[1], at).value);
  if (row < 0) return exactly(0);
  Indices inner = nowhere();
  inner[name(node.along)] = row;
  for (const Extent& extent : graph_.nodes[static_cast<size_t>(node.args[0])].shape)
    if (!graph_.same_name(extent, node.along)) inner[name(extent)] = index_of(extent, at);
  return value(node.args[0], inner);
}

Indices NaiveEvaluation::before_split(const Node& node, Indices at) const {
  const Extent whole = graph_.whole_name(node), part = ir::half(whole);
  const int64_t place = at[name(part)], piece = node.piece == 0 ? sizes_.size(part) : node.piece;
  at[name(part)] = -1;
  at[name(whole)] = place / piece * (2 * piece) + node.index * piece + place % piece;
  return at;
}

Indices NaiveEvaluation::before_join(const Node& node, Indices at, int& part) const {
  const Extent whole = graph_.whole_name(node), half = ir::half(whole);
  const int64_t place = at[name(whole)], piece = node.piece == 0 ? sizes_.size(half) : node.piece;
  at[name(whole)] = -1;
  part = static_cast<int>(place / piece % 2);
  at[name(half)] = place / (2 * piece) * piece + place % piece;
  return at;
}

// ---- derivatives

Indices NaiveEvaluation::behind_splits(NodeId f, NodeId x, const Indices& at) const {
  if (f == x) return at;
  const Node& node = graph_.nodes[static_cast<size_t>(f)];
  std::vector<bool> reached(graph_.nodes.size());
  reached[static_cast<size_t>(x)] = true;
  for (size_t i = static_cast<size_t>(x) + 1; i <= static_cast<size_t>(f); ++i)
    for (const NodeId arg : graph_.nodes[i].args)
      if (reached[static_cast<size_t>(arg)]) reached[i] = true;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const NodeId arg = node.args[i];
    if (!reached[static_cast<size_t>(arg)]) continue;
    Indices inner = behind_splits(arg, x, at);
    if (node.op != Op::split && node.op != Op::join) return inner;
    // The reverse of what the node does to indices.
    const Extent whole = graph_.whole_name(node), part = ir::half(whole);
    const Extent &from = node.op == Op::split ? whole : part, &to = node.op == Op::split ? part : whole;
    const int64_t place = inner[name(from)];
    if (place < 0) return inner;  // x does not have the name
    inner[name(from)] = -1;
    const int64_t piece = node.piece == 0 ? sizes_.size(part) : node.piece;
    inner[name(to)] = node.op == Op::split
                          ? place / (2 * piece) * piece + place % piece
                          : place / piece * (2 * piece) + static_cast<int64_t>(i) * piece + place % piece;
    return inner;
  }
  return at;
}

// seed * df/dx at each element. An element of x that was split off goes into f's element of the same pair, through
// either part; both parts are the same place of f.
Estimate NaiveEvaluation::gradient(const Node& node, const Indices& at) {
  const NodeId f = node.args[0], seed = node.args[1], x = node.args[static_cast<size_t>(2 + node.index)];
  Target target;
  target.node = x;
  target.at = restricted(x, at);
  target.known.resize(graph_.nodes.size());
  target.reached.resize(graph_.nodes.size());
  target.reached[static_cast<size_t>(x)] = true;
  for (size_t i = static_cast<size_t>(x) + 1; i < graph_.nodes.size(); ++i)
    for (const NodeId arg : graph_.nodes[i].args)
      if (target.reached[static_cast<size_t>(arg)]) target.reached[i] = true;
  const Indices place = behind_splits(f, x, at);
  if (!target.reached[static_cast<size_t>(f)]) return exactly(0);
  return value(seed, place) * derivative(f, place, target);
}

Estimate NaiveEvaluation::derivative(NodeId id, const Indices& at, Target& target) {
  const Node& node = graph_.nodes[static_cast<size_t>(id)];
  if (!target.reached[static_cast<size_t>(id)]) return exactly(0);
  const Indices here = restricted(id, at);
  if (id == target.node) return exactly(here == target.at ? 1 : 0);
  Memory& memory = target.known[static_cast<size_t>(id)];
  if (const auto known = memory.find(here); known != memory.end()) return known->second;
  const Estimate result = derivative_of(node, here, target);
  memory[here] = result;
  return result;
}

Estimate NaiveEvaluation::derivative_of(const Node& node, const Indices& at, Target& target) {
  if (node.op == Op::split) return derivative(node.args[0], before_split(node, at), target);
  if (node.op == Op::join) {
    int part = 0;
    const Indices inner = before_join(node, at, part);
    return derivative(node.args[static_cast<size_t>(part)], inner, target);
  }
  if (ir::op_info(node.op).kind != ir::OpKind::map)
    throw std::logic_error("a derivative through no pointwise operation");
  std::vector<Estimate> args;
  for (const NodeId arg : node.args) args.push_back(value(arg, at));
  const std::vector<Estimate> partials = partials_naively(node, args);
  Estimate sum = exactly(0);
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!target.reached[static_cast<size_t>(node.args[i])]) continue;
    const Estimate along = derivative(node.args[i], at, target);
    // A branch that is not taken gives nothing, not 0 * NaN of what it would give.
    if (along.value == 0 && along.error == 0) continue;
    if (partials[i].value == 0 && partials[i].error == 0) continue;
    Estimate term = partials[i] * along;
    // A product of constants becomes a number of a graph, an f32.
    if (term.error < std::fabs(term.value) * 0x1p-40L && term.value != static_cast<float>(term.value))
      term.error += std::fabs(term.value) * 0x1p-24L;
    sum = sum + term;
  }
  return sum;
}

}  // namespace epifuse::test
