// From the nodes under a value to the straight list of instructions that evaluates it.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

#include "base/ensure.h"
#include "compiler/interpreter/evaluator.h"

namespace epifuse::interpreter {

using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Shape;

class ProgramCompiler {
 public:
  ProgramCompiler(const Problem& problem, const GemmResults& gemms, const Shape& domain, int vector_axis, bool bounds)
      : problem_(problem), graph_(problem.graph()), gemms_(gemms), domain_(domain) {
    program_.coordinates_ = CoordinateTable(vector_axis);
    program_.bounds_ = bounds;
  }

  Result<ValueProgram> run(NodeId value) {
    std::vector<CoordinateId> axes;
    for (size_t axis = 0; axis < domain_.size(); ++axis) {
      Coordinate coordinate;
      coordinate.axis = static_cast<int>(axis);
      axes.push_back(program_.coordinates_.add(coordinate));
    }
    emit(value, coordinates_of(graph_.nodes[value].shape, domain_, axes));  // into the last register
    if (!refusal_.empty()) return user_error(refusal_);
    guard();
    return std::move(program_);
  }

 private:
  using Kind = ValueProgram::Kind;
  using Instruction = ValueProgram::Instruction;

  static int arity(const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::map: return static_cast<int>(instruction.node->args.size());
      case Kind::masked: return 1;
      case Kind::choose: return 2;
      case Kind::rotate: return rotation_size;
      default: return 0;
    }
  }

  // Finds what only one part of a choice needs. Users come behind what they use.
  void guard() {
    struct Guard {
      CoordinateId choice = -1;
      int part = 0;
      bool operator==(const Guard&) const = default;
    };
    std::vector<Instruction>& all = program_.instructions_;
    std::vector<std::optional<Guard>> guards(all.size());  // nothing: no user met yet
    guards.back() = Guard();
    for (size_t i = all.size(); i-- > 0;) {
      const Guard own = guards[i].value_or(Guard());
      all[i].guard = own.choice;
      all[i].guarded_part = own.part;
      const bool chooses = all[i].kind == Kind::choose && own.choice < 0;
      for (int n = 0; n < arity(all[i]); ++n) {
        std::optional<Guard>& guard = guards[static_cast<size_t>(all[i].args[n])];
        const Guard wanted = chooses ? Guard{all[i].condition, n} : own;
        guard = !guard || *guard == wanted ? wanted : Guard();
      }
    }
  }

  int push(Instruction instruction) {
    program_.instructions_.push_back(std::move(instruction));
    return static_cast<int>(program_.instructions_.size()) - 1;
  }

  using Place = std::pair<NodeId, std::vector<CoordinateId>>;

  // The register with the node's value where its names have these coordinates (in the order of the node's shape). What
  // maps use is emitted from the bottom up, so that a long chain of them does not become a deep stack of calls.
  int emit(NodeId id, const std::vector<CoordinateId>& coordinates) {
    std::vector<Place> open = {{id, coordinates}};
    while (!open.empty()) {
      const Place place = open.back();
      if (!emitted_.count(place)) {
        if (std::optional<Place> first = missing_map(place)) {
          open.push_back(*std::move(first));
          continue;
        }
        const int result = emit_new(place.first, place.second);
        emitted_[place] = result;
      }
      open.pop_back();
    }
    return emitted_.at({id, coordinates});
  }

  // The first argument of a map that is a map itself and not emitted yet.
  std::optional<Place> missing_map(const Place& place) {
    const Node& node = graph_.nodes[place.first];
    if (ir::op_info(node.op).kind != ir::OpKind::map) return std::nullopt;
    for (const NodeId argument : node.args) {
      if (ir::op_info(graph_.nodes[argument].op).kind != ir::OpKind::map) continue;
      Place wanted{argument, coordinates_of(graph_.nodes[argument].shape, node.shape, place.second)};
      if (!emitted_.count(wanted)) return wanted;
    }
    return std::nullopt;
  }

  int emit_new(NodeId id, const std::vector<CoordinateId>& coordinates) {
    const Node& node = graph_.nodes[id];
    switch (node.op) {
      case ir::Op::number: return constant(node.number);
      case ir::Op::param: return constant(problem_.param(node.index));
      case ir::Op::input: return input(node, coordinates);
      case ir::Op::gemm: return gemm(id, coordinates);
      case ir::Op::split: return split(node, coordinates);
      case ir::Op::join: return join(node, coordinates);
      case ir::Op::gather: return gather(node, coordinates);
      case ir::Op::hadamard: return rotate(node, coordinates);
      case ir::Op::group_ends:
      case ir::Op::grad:
        refusal_ = fmt::format("the interpreter does not evaluate '{}' here yet", ir::op_info(node.op).name);
        return constant(0);
      default: return map(node, coordinates);
    }
  }

  int constant(double number) {
    Instruction instruction;
    instruction.number = number;
    instruction.uniform = true;
    return push(std::move(instruction));
  }

  // The coordinate of `name` where a node of this shape has these coordinates: its own, or the group of its row.
  CoordinateId coordinate_of(const Extent& name, const Shape& shape, const std::vector<CoordinateId>& coordinates) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (graph_.same_name(shape[i], name)) return coordinates[i];
    for (size_t i = 0; i < shape.size(); ++i) {
      const Extent base = graph_.base_name(shape[i]);
      const Groups* groups = base.times == 1 && base.over == 1 ? problem_.groups(base.dim) : nullptr;
      if (!groups || !(name == Extent{1, graph_.dims[base.dim].cut_by, 1})) continue;
      Coordinate group;
      group.kind = Coordinate::Kind::group;
      group.from = coordinates[i];
      group.groups = groups;
      return program_.coordinates_.add(group);
    }
    EPIFUSE_ENSURE(false, "a name that the value does not have");
  }

  std::vector<CoordinateId> coordinates_of(const Shape& inner, const Shape& shape,
                                           const std::vector<CoordinateId>& coordinates) {
    std::vector<CoordinateId> result;
    for (const Extent& name : inner) result.push_back(coordinate_of(name, shape, coordinates));
    return result;
  }

  // The place along an axis of a buffer: an aligned dimension has its rows elsewhere.
  CoordinateId place_in_buffer(const Extent& extent, CoordinateId coordinate) {
    if (extent.dim < 0 || graph_.dims[extent.dim].kind != ir::DimKind::aligned) return coordinate;
    Coordinate aligned;
    aligned.kind = Coordinate::Kind::aligned;
    aligned.from = coordinate;
    aligned.groups = problem_.groups(graph_.dims[extent.dim].base);
    aligned.aligned = problem_.groups(extent.dim);
    return program_.coordinates_.add(aligned);
  }

  int input(const Node& node, const std::vector<CoordinateId>& coordinates) {
    const ir::Input& declared = graph_.inputs[node.index];
    const HostTensor* tensor = problem_.input(node.index);
    if (!tensor) return constant(*declared.default_value);
    Instruction instruction;
    instruction.kind = Kind::plain_input;
    instruction.tensor = tensor;
    const Shape& shape = declared.tensor.shape;
    const std::vector<int64_t> strides = tensor->strides();
    std::vector<CoordinateId> places;
    for (size_t i = 0; i < shape.size(); ++i) {
      places.push_back(place_in_buffer(shape[i], coordinate_of(shape[i], node.shape, coordinates)));
      instruction.address.terms.push_back({places[i], strides[i]});
    }
    instruction.uniform = !program_.coordinates_.varies(instruction.address);
    if (declared.tensor.type.scaled()) scaled(declared.tensor, node.index, places, instruction);
    return push(std::move(instruction));
  }

  void scaled(const ir::Tensor& tensor, ir::InputId id, const std::vector<CoordinateId>& places,
              Instruction& instruction) {
    Result<ScaledTensor> scaled = ScaledTensor::make(problem_, tensor);
    if (!scaled) {
      refusal_ = scaled.error().message;
      return;
    }
    instruction.kind = Kind::scaled_input;
    instruction.scaled = std::make_shared<const ScaledTensor>(*std::move(scaled));
    instruction.scale = problem_.input_scale(id);
    instruction.places = places;
  }

  int gemm(NodeId id, const std::vector<CoordinateId>& coordinates) {
    const GemmResult& result = gemms_.at(id);
    Instruction instruction;
    instruction.kind = Kind::gemm;
    instruction.gemm = &result;
    const Shape& shape = graph_.nodes[id].shape;
    for (const GemmAxis& axis : result.row_axes)
      instruction.address.terms.push_back({coordinate_of(axis.name, shape, coordinates), axis.stride});
    for (const GemmAxis& axis : result.col_axes)
      instruction.columns.terms.push_back({coordinate_of(axis.name, shape, coordinates), axis.stride});
    instruction.uniform =
        !program_.coordinates_.varies(instruction.address) && !program_.coordinates_.varies(instruction.columns);
    return push(std::move(instruction));
  }

  // The name of `whole` that `part` has halved; -1 if none, when the graph is unsound.
  size_t halved_axis(const Shape& whole, const Shape& part) const {
    for (size_t i = 0; i < whole.size(); ++i)
      if (!graph_.has_name(part, whole[i])) return i;
    EPIFUSE_ENSURE(false, "a split that halves nothing");
  }

  Coordinate halving(Coordinate::Kind kind, const Node& node, const Extent& whole, CoordinateId from) const {
    Coordinate coordinate;
    coordinate.kind = kind;
    coordinate.from = from;
    coordinate.halves = node.piece == 0;
    coordinate.piece = coordinate.halves ? std::max<int64_t>(1, problem_.size(whole) / 2) : node.piece;
    return coordinate;
  }

  int split(const Node& node, const std::vector<CoordinateId>& coordinates) {
    const Shape &whole = graph_.nodes[node.args[0]].shape, &part = node.shape;
    const size_t axis = halved_axis(whole, part), part_axis = halved_axis(part, whole);
    std::vector<CoordinateId> inner;
    for (size_t i = 0; i < whole.size(); ++i) {
      if (i != axis) {
        inner.push_back(coordinate_of(whole[i], part, coordinates));
        continue;
      }
      Coordinate coordinate = halving(Coordinate::Kind::split, node, whole[i], coordinates[part_axis]);
      coordinate.part = node.index;
      inner.push_back(program_.coordinates_.add(coordinate));
    }
    return emit(node.args[0], inner);
  }

  int join(const Node& node, const std::vector<CoordinateId>& coordinates) {
    Instruction instruction;
    instruction.kind = Kind::choose;
    const Shape& whole = node.shape;
    const Extent doubled = graph_.whole_name(node);
    const CoordinateId along = coordinate_of(doubled, whole, coordinates);
    for (int argument = 0; argument < 2; ++argument) {
      const Shape& part = graph_.nodes[node.args[argument]].shape;
      instruction.condition = program_.coordinates_.add(halving(Coordinate::Kind::part, node, doubled, along));
      std::vector<CoordinateId> inner;
      for (const Extent& name : part)
        inner.push_back(graph_.same_name(name, ir::half(doubled))
                            ? program_.coordinates_.add(halving(Coordinate::Kind::join, node, doubled, along))
                            : coordinate_of(name, whole, coordinates));
      instruction.args[argument] = emit(node.args[argument], inner);
    }
    instruction.uniform = uniform(instruction, 2) && !program_.coordinates_[instruction.condition].varies;
    return push(std::move(instruction));
  }

  int gather(const Node& node, const std::vector<CoordinateId>& coordinates) {
    const Node &from = graph_.nodes[node.args[0]], &index = graph_.nodes[node.args[1]];
    Coordinate gathered;
    gathered.kind = Coordinate::Kind::gathered;
    gathered.index = problem_.input(index.index);
    EPIFUSE_ENSURE(gathered.index, "the index of a gather is left out");
    gathered.limit = problem_.size(node.along);
    if (gathered.limit == 0) return constant(0);  // no row to read, not even for what is masked
    const Shape& index_shape = graph_.inputs[index.index].tensor.shape;
    const std::vector<int64_t> strides = gathered.index->strides();
    for (size_t i = 0; i < index_shape.size(); ++i)
      gathered.address.terms.push_back(
          {place_in_buffer(index_shape[i], coordinate_of(index_shape[i], node.shape, coordinates)), strides[i]});
    Coordinate clamped;
    clamped.kind = Coordinate::Kind::clamped;
    clamped.from = program_.coordinates_.add(gathered);
    const CoordinateId row = program_.coordinates_.add(clamped);
    std::vector<CoordinateId> inner;
    for (const Extent& name : from.shape)
      inner.push_back(graph_.same_name(name, node.along) ? row : coordinate_of(name, node.shape, coordinates));
    Instruction instruction;
    instruction.kind = Kind::masked;
    instruction.args[0] = emit(node.args[0], inner);
    instruction.condition = clamped.from;
    instruction.uniform = uniform(instruction, 1) && !program_.coordinates_[instruction.condition].varies;
    return push(std::move(instruction));
  }

  // The argument is evaluated at each of the 16 places.
  int rotate(const Node& node, const std::vector<CoordinateId>& coordinates) {
    const Extent along = graph_.base_name(node.along);
    Coordinate place;
    place.from = coordinate_of(along, node.shape, coordinates);
    place.groups = along.times == 1 && along.over == 1 ? problem_.groups(along.dim) : nullptr;
    place.limit = problem_.size(along);
    Instruction instruction;
    instruction.kind = Kind::rotate;
    instruction.node = &node;
    instruction.condition = place.from;
    place.kind = Coordinate::Kind::in_rotation;
    instruction.in_rotation = program_.coordinates_.add(place);
    place.kind = Coordinate::Kind::rotated;
    const Shape& shape = graph_.nodes[node.args[0]].shape;
    for (int r = 0; r < rotation_size; ++r) {
      place.part = r;
      instruction.places.push_back(program_.coordinates_.add(place));
      std::vector<CoordinateId> inner;
      for (const Extent& name : shape)
        inner.push_back(graph_.same_name(name, along) ? instruction.places.back()
                                                      : coordinate_of(name, node.shape, coordinates));
      instruction.args[r] = emit(node.args[0], inner);
    }
    instruction.uniform = uniform(instruction, rotation_size) && !program_.coordinates_[instruction.in_rotation].varies;
    return push(std::move(instruction));
  }

  int map(const Node& node, const std::vector<CoordinateId>& coordinates) {
    Instruction instruction;
    instruction.kind = Kind::map;
    instruction.node = &node;
    const int arity = static_cast<int>(node.args.size());
    for (int i = 0; i < arity; ++i)
      instruction.args[i] =
          emit(node.args[i], coordinates_of(graph_.nodes[node.args[i]].shape, node.shape, coordinates));
    instruction.uniform = uniform(instruction, arity);
    return push(std::move(instruction));
  }

  bool uniform(const Instruction& instruction, int arity) const {
    for (int i = 0; i < arity; ++i)
      if (!program_.instructions_[instruction.args[i]].uniform) return false;
    return true;
  }

  const Problem& problem_;
  const ir::Graph& graph_;
  const GemmResults& gemms_;
  const Shape& domain_;
  ValueProgram program_;
  std::map<std::pair<NodeId, std::vector<CoordinateId>>, int> emitted_;
  std::string refusal_;
};

Result<ValueProgram> ValueProgram::compile(const Problem& problem, const GemmResults& gemms, NodeId value,
                                           const Shape& domain, int vector_axis, bool bounds) {
  return ProgramCompiler(problem, gemms, domain, vector_axis, bounds).run(value);
}

}  // namespace epifuse::interpreter
