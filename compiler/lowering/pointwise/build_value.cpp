#include "compiler/lowering/pointwise/build_value.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "base/ensure.h"

namespace epifuse::lowering {

using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;
using Coordinate = PointwiseCoordinate;

bool PointwiseCoordinate::same_as(const PointwiseCoordinate& other) const {
  return kind == other.kind && axis == other.axis && from == other.from && group == other.group && dim == other.dim &&
         whole == other.whole && piece == other.piece && part == other.part && input == other.input &&
         address == other.address;
}

namespace {

constexpr int wide = 8;
constexpr int missing = -1;  // no node: an argument of it is still to be emitted

class ValueBuilder {
 public:
  ValueBuilder(const ir::Graph& graph, PointwiseLaunch& launch, Diagnostics& diagnostics)
      : graph_(graph), launch_(launch), value_(launch.value), diagnostics_(diagnostics) {}

  bool run(NodeId id) {
    std::vector<int> coordinates;
    for (const Extent& name : graph_.nodes[static_cast<size_t>(id)].shape) coordinates.push_back(domain(name));
    const int last = emit_all(id, coordinates);
    // The value is the last node, also where it was met before.
    EPIFUSE_ENSURE(!sound_ || last + 1 == static_cast<int>(value_.nodes.size()), "a value that is not the last node");
    return sound_;
  }

 private:
  const Node& node(NodeId id) const { return graph_.nodes[static_cast<size_t>(id)]; }
  const ir::Dimension& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)]; }
  Coordinate& coordinate(int id) { return value_.coordinates[static_cast<size_t>(id)]; }

  int refuse(Span where, std::string what, std::string hint = "") {
    if (sound_) diagnostics_.error(where, std::move(what), std::move(hint));
    sound_ = false;
    PointwiseNode zero;
    return push(zero);
  }

  // ---- coordinates

  int add(Coordinate c) {
    for (size_t i = 0; i < value_.coordinates.size(); ++i)
      if (value_.coordinates[i].same_as(c)) return static_cast<int>(i);
    derive(c);
    value_.coordinates.push_back(std::move(c));
    return static_cast<int>(value_.coordinates.size()) - 1;
  }

  void derive(Coordinate& c) {
    const Coordinate from = c.from < 0 ? Coordinate{} : coordinate(c.from);
    std::set<int> guards(from.guards.begin(), from.guards.end());
    switch (c.kind) {
      case Coordinate::Kind::axis:
        c.varies = c.axis == launch_.lane_axis && launch_.width > 1;
        c.runs = c.whole_runs = c.varies && launch_.axes[static_cast<size_t>(c.axis)].place < 0;
        break;
      case Coordinate::Kind::group: break;  // an item lies in one group
      case Coordinate::Kind::split: {
        const bool whole_pieces = pieces_are_whole(c);
        c.varies = from.varies;
        c.runs = from.runs && (c.piece == 0 || (from.whole_runs && whole_pieces));
        c.whole_runs = from.whole_runs && whole_pieces;
        break;
      }
      case Coordinate::Kind::join:
        c.varies = from.varies;
        c.runs = c.whole_runs = from.whole_runs && pieces_are_whole(c);
        break;
      case Coordinate::Kind::part: c.varies = from.varies && !(from.whole_runs && pieces_are_whole(c)); break;
      case Coordinate::Kind::gathered:
        for (const int at : c.address) {
          c.varies = c.varies || coordinate(at).varies;
          guards.insert(coordinate(at).guards.begin(), coordinate(at).guards.end());
        }
        break;
      case Coordinate::Kind::clamped: guards.insert(c.from); [[fallthrough]];
      case Coordinate::Kind::group_of:
      case Coordinate::Kind::aligned: c.varies = from.varies; break;
    }
    if (c.group >= 0) guards.insert(coordinate(c.group).guards.begin(), coordinate(c.group).guards.end());
    c.guards.assign(guards.begin(), guards.end());
  }

  // Whether eight neighbours from a multiple of 8 are never in two pieces.
  bool pieces_are_whole(const Coordinate& c) const {
    if (c.piece != 0) return c.piece % wide == 0;
    const std::optional<int64_t> size = graph_.fixed_value(c.whole);
    return size && *size % (2 * wide) == 0;
  }

  int axis_coordinate(size_t axis) {
    Coordinate c;
    c.axis = static_cast<int>(axis);
    return add(std::move(c));
  }
  int group_coordinate(size_t axis) {
    Coordinate c;
    c.kind = Coordinate::Kind::group;
    c.axis = static_cast<int>(axis);
    return add(std::move(c));
  }

  bool counts_groups_of(const Extent& name, ir::DimId grouped) const {
    return grouped >= 0 && dim(grouped).kind == ir::DimKind::grouped && name == Extent{1, dim(grouped).cut_by, 1};
  }
  static bool is_plain(const Extent& name) { return name.dim >= 0 && name.times == 1 && name.over == 1; }

  // The coordinate of a name of the value: an axis of the walk, or the group of one.
  int domain(const Extent& name) {
    for (size_t i = 0; i < launch_.axes.size(); ++i)
      if (graph_.same_name(launch_.axes[i].name, name)) return axis_coordinate(i);
    for (size_t i = 0; i < launch_.axes.size(); ++i)
      if (counts_groups_of(name, launch_.axes[i].grouped)) return group_coordinate(i);
    EPIFUSE_ENSURE(false, "a walk that lacks a name of the value");
  }

  // The coordinate of `name` where a node of this shape has these: its own, or the group of its row.
  int coordinate_of(const Extent& name, const Shape& shape, const std::vector<int>& coordinates) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (graph_.same_name(shape[i], name)) return coordinates[i];
    for (size_t i = 0; i < shape.size(); ++i) {
      const Extent base = graph_.base_name(shape[i]);
      if (is_plain(base) && counts_groups_of(name, base.dim)) return group_of(coordinates[i], base.dim);
    }
    EPIFUSE_ENSURE(false, "a name that the value does not have");
  }

  int group_of(int row, ir::DimId grouped) {
    if (coordinate(row).kind == Coordinate::Kind::axis)
      return group_coordinate(static_cast<size_t>(coordinate(row).axis));
    Coordinate c;
    c.kind = Coordinate::Kind::group_of;
    c.from = row;
    c.dim = grouped;
    return add(std::move(c));
  }

  // The place along an axis of a buffer: an aligned dimension has its rows elsewhere.
  int place_in_buffer(const Extent& extent, int row, Span where) {
    if (extent.dim < 0 || dim(extent.dim).kind != ir::DimKind::aligned) return row;
    if (coordinate(row).kind != Coordinate::Kind::axis) {
      refuse(where, fmt::format("rows read by index over the aligned dimension '{}' are not lowered yet",
                                dim(extent.dim).name));
      return row;
    }
    Coordinate c;
    c.kind = Coordinate::Kind::aligned;
    c.from = row;
    c.group = group_of(row, dim(extent.dim).base);
    c.dim = extent.dim;
    return add(std::move(c));
  }

  // ---- nodes

  int push(PointwiseNode n) {
    value_.nodes.push_back(std::move(n));
    return static_cast<int>(value_.nodes.size()) - 1;
  }
  bool all_uniform(const std::vector<int>& args) const {
    return std::all_of(args.begin(), args.end(),
                       [&](int arg) { return value_.nodes[static_cast<size_t>(arg)].uniform; });
  }

  using Wanted = std::pair<NodeId, std::vector<int>>;

  // Each value behind its arguments. A value whose argument is missing is given up and begun again behind it: a chain
  // of operations may be longer than the machine's stack is deep.
  int emit_all(NodeId id, const std::vector<int>& coordinates) {
    std::vector<Wanted> open{{id, coordinates}};
    while (true) {
      const Wanted now = open.back();
      const int result = emit_new(now.first, now.second);
      if (result < 0) {
        open.push_back(missing_);
        continue;
      }
      emitted_[now] = result;
      open.pop_back();
      if (open.empty()) return result;
    }
  }

  // An argument; `missing` where it is still to be emitted.
  int emit(NodeId id, const std::vector<int>& coordinates) {
    Wanted wanted(id, coordinates);
    if (const auto it = emitted_.find(wanted); it != emitted_.end()) return it->second;
    missing_ = std::move(wanted);
    return missing;
  }

  // The value, or `missing`.
  int emit_new(NodeId id, const std::vector<int>& coordinates) {
    const Node& n = node(id);
    switch (n.op) {
      case Op::number: return number(n.number);
      case Op::param: {
        PointwiseNode result;
        result.kind = PointwiseNode::Kind::param;
        result.index = n.index;
        return push(std::move(result));
      }
      case Op::input: return input(n, coordinates);
      case Op::split: return split(n, coordinates);
      case Op::join: return join(n, coordinates);
      case Op::gather: return gather(n, coordinates);
      case Op::hadamard: return rotated(id, coordinates);
      case Op::gemm:
      case Op::group_ends:
      case Op::grad:
        return refuse(n.where, fmt::format("'{}' in a kernel without gemm is not lowered yet", ir::op_info(n.op).name));
      default: return map(n, coordinates);
    }
  }

  int number(double value) {
    PointwiseNode result;
    result.number = value;
    return push(std::move(result));
  }

  int input(const Node& n, const std::vector<int>& coordinates) {
    const ir::Input& declared = graph_.inputs[static_cast<size_t>(n.index)];
    if (declared.left_out) return number(*declared.default_value);
    const ir::Tensor& tensor = declared.tensor;
    if (tensor.type.scaled())
      return refuse(tensor.where, fmt::format("an input of type {} in a kernel without gemm is not lowered yet",
                                              ir::print_type(tensor.type)));
    if (tensor.type.storage() == Storage::i32 || tensor.type.storage() == Storage::i64)
      return refuse(tensor.where, fmt::format("'{}' holds integers, which only index rows", tensor.name));
    PointwiseNode result;
    result.kind = PointwiseNode::Kind::input;
    result.index = n.index;
    for (const Extent& name : tensor.shape)
      result.address.push_back(place_in_buffer(name, coordinate_of(name, n.shape, coordinates), n.where));
    return read(std::move(result));
  }

  // Its launch has run before.
  int rotated(NodeId id, const std::vector<int>& coordinates) {
    PointwiseNode result;
    result.kind = PointwiseNode::Kind::rotated;
    result.index = id;
    result.address = coordinates;
    return read(std::move(result));
  }

  // From memory, eight neighbours at once where they are some.
  int read(PointwiseNode result) {
    int varying = 0;
    for (const int at : result.address) varying += coordinate(at).varies;
    result.uniform = varying == 0;
    result.wide = varying == 1 && launch_.width == wide && coordinate(result.address.back()).whole_runs;
    return push(std::move(result));
  }

  // The name of `whole` that `part` has halved.
  size_t halved_axis(const Shape& whole, const Shape& part) const {
    for (size_t i = 0; i < whole.size(); ++i)
      if (!graph_.has_name(part, whole[i])) return i;
    EPIFUSE_ENSURE(false, "a split that halves nothing");
  }

  int halving(Coordinate::Kind kind, const Node& n, const Extent& whole, int from, int part = 0) {
    Coordinate c;
    c.kind = kind;
    c.from = from;
    c.whole = whole;
    c.piece = n.piece;
    c.part = part;
    return add(std::move(c));
  }

  int split(const Node& n, const std::vector<int>& coordinates) {
    const Shape &whole = node(n.args[0]).shape, &part = n.shape;
    const size_t axis = halved_axis(whole, part), part_axis = halved_axis(part, whole);
    std::vector<int> inner;
    for (size_t i = 0; i < whole.size(); ++i)
      inner.push_back(i == axis ? halving(Coordinate::Kind::split, n, whole[i], coordinates[part_axis], n.index)
                                : coordinate_of(whole[i], part, coordinates));
    return emit(n.args[0], inner);
  }

  int join(const Node& n, const std::vector<int>& coordinates) {
    PointwiseNode result;
    result.kind = PointwiseNode::Kind::choose;
    const Shape& whole = n.shape;
    const Extent doubled = graph_.whole_name(n);
    const int along = coordinate_of(doubled, whole, coordinates);
    for (const NodeId argument : n.args) {
      result.condition = halving(Coordinate::Kind::part, n, doubled, along);
      std::vector<int> inner;
      for (const Extent& name : node(argument).shape)
        inner.push_back(graph_.same_name(name, ir::half(doubled)) ? halving(Coordinate::Kind::join, n, doubled, along)
                                                                  : coordinate_of(name, whole, coordinates));
      const int made = emit(argument, inner);
      if (made < 0) return missing;
      result.args.push_back(made);
    }
    result.uniform = all_uniform(result.args) && !coordinate(result.condition).varies;
    return push(std::move(result));
  }

  int gather(const Node& n, const std::vector<int>& coordinates) {
    const Shape& from = node(n.args[0]).shape;
    const ir::Input& index = graph_.inputs[static_cast<size_t>(node(n.args[1]).index)];
    EPIFUSE_ENSURE(!index.left_out, "the index of a gather is left out");
    Coordinate gathered;
    gathered.kind = Coordinate::Kind::gathered;
    gathered.input = node(n.args[1]).index;
    gathered.whole = n.along;
    for (const Extent& name : index.tensor.shape)
      gathered.address.push_back(place_in_buffer(name, coordinate_of(name, n.shape, coordinates), n.where));
    const int read = add(std::move(gathered));
    Coordinate clamped;
    clamped.kind = Coordinate::Kind::clamped;
    clamped.from = read;
    const int row = add(std::move(clamped));
    std::vector<int> inner;
    for (const Extent& name : from)
      inner.push_back(graph_.same_name(name, n.along) ? row : coordinate_of(name, n.shape, coordinates));
    PointwiseNode result;
    result.kind = PointwiseNode::Kind::masked;
    result.args = {emit(n.args[0], inner)};
    if (result.args[0] < 0) return missing;
    result.condition = read;
    result.uniform = all_uniform(result.args) && !coordinate(read).varies;
    return push(std::move(result));
  }

  int map(const Node& n, const std::vector<int>& coordinates) {
    PointwiseNode result;
    result.kind = PointwiseNode::Kind::map;
    result.op = n.op;
    result.to = n.to;
    for (const NodeId argument : n.args) {
      std::vector<int> inner;
      for (const Extent& name : node(argument).shape) inner.push_back(coordinate_of(name, n.shape, coordinates));
      const int made = emit(argument, inner);
      if (made < 0) return missing;
      result.args.push_back(made);
    }
    result.uniform = all_uniform(result.args);
    return push(std::move(result));
  }

  const ir::Graph& graph_;
  PointwiseLaunch& launch_;
  PointwiseValue& value_;
  Diagnostics& diagnostics_;
  std::map<Wanted, int> emitted_;
  Wanted missing_;  // what the last `missing` was about
  bool sound_ = true;
};

}  // namespace

bool build_value(const ir::Graph& graph, NodeId value, PointwiseLaunch& launch, Diagnostics& diagnostics) {
  return ValueBuilder(graph, launch, diagnostics).run(value);
}

}  // namespace epifuse::lowering
