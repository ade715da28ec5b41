// From a gemm node to a task: which names are rows, columns, batches or groups, and where each element lies.
#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "base/ensure.h"
#include "compiler/interpreter/gemm.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/scaled_tensor.h"

namespace epifuse::interpreter {
namespace {

using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Shape;

constexpr int64_t no_position = -1;

// A name of an operand's shape and an index along it. The contracted name's index counts places of the buffer, the
// others count places of the base dimension.
struct Place {
  Extent name;
  int64_t index;
};

class OperandReader {
 public:
  OperandReader(const Problem& problem, NodeId operand, const Extent& contracted)
      : problem_(problem), graph_(problem.graph()), operand_(operand), contracted_(graph_.base_name(contracted)) {}

  ir::InputId input() const {
    NodeId id = operand_;
    while (graph_.nodes[id].op != ir::Op::input) id = graph_.nodes[id].args[0];
    return graph_.nodes[id].index;
  }

  // Whether the index of a gather runs over the contracted name: rows lie anywhere along it.
  bool gathers_contraction() const {
    for (NodeId id = operand_; graph_.nodes[id].op != ir::Op::input; id = graph_.nodes[id].args[0])
      if (graph_.nodes[id].op == ir::Op::gather &&
          graph_.has_name(graph_.nodes[graph_.nodes[id].args[1]].shape, contracted_))
        return true;
    return false;
  }

  // Where each group starts along the contraction: as in the buffer that has the contracted name, an input's or an
  // index's.
  const Groups* contracted_groups() const {
    for (NodeId id = operand_;; id = graph_.nodes[id].args[0]) {
      const Node& node = graph_.nodes[id];
      const NodeId buffer = node.op == ir::Op::gather ? node.args[1] : id;
      if (graph_.nodes[buffer].op == ir::Op::input)
        for (const Extent& extent : graph_.inputs[graph_.nodes[buffer].index].tensor.shape)
          if (graph_.same_name(extent, contracted_)) return problem_.groups(extent.dim);
      EPIFUSE_ENSURE(node.op != ir::Op::input, "an operand of a gemm without the contracted name");
    }
  }

  // The element's position in the input's buffer, or no_position.
  int64_t position(const std::vector<Place>& places) const { return position(operand_, places); }

 private:
  int64_t position(NodeId id, const std::vector<Place>& places) const {
    const Node& node = graph_.nodes[id];
    switch (node.op) {
      case ir::Op::input: return in_buffer(graph_.inputs[node.index].tensor, places);
      case ir::Op::split: return position(node.args[0], before_split(node, places));
      case ir::Op::gather: {
        const Node& index_node = graph_.nodes[node.args[1]];
        const ir::Tensor& index_tensor = graph_.inputs[index_node.index].tensor;
        const int64_t at = in_buffer(index_tensor, places);
        if (at == no_position) return no_position;
        const int64_t index = load_integer(*problem_.input(index_node.index), at);
        if (index < 0) return no_position;
        std::vector<Place> inner;
        for (const Place& place : places)
          if (!graph_.has_name(index_node.shape, place.name)) inner.push_back(place);
        inner.push_back({graph_.base_name(node.along), index});
        return position(node.args[0], inner);
      }
      default: EPIFUSE_ENSURE(false, "an operand of a gemm that is no input");
    }
  }

  std::vector<Place> before_split(const Node& node, std::vector<Place> places) const {
    for (const Extent& whole : graph_.nodes[node.args[0]].shape) {
      if (graph_.has_name(node.shape, whole)) continue;
      for (Place& place : places) {
        if (graph_.has_name(graph_.nodes[node.args[0]].shape, place.name)) continue;
        const int64_t half = problem_.size(whole) / 2, piece = node.piece == 0 ? half : node.piece;
        place = {graph_.base_name(whole), place.index / piece * 2 * piece + node.index * piece + place.index % piece};
      }
    }
    return places;
  }

  int64_t in_buffer(const ir::Tensor& tensor, const std::vector<Place>& places) const {
    int64_t position = 0;
    const std::vector<int64_t> extents = problem_.extents(tensor);
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const Extent& extent = tensor.shape[axis];
      const auto place =
          std::find_if(places.begin(), places.end(), [&](const Place& p) { return graph_.same_name(p.name, extent); });
      EPIFUSE_ENSURE(place != places.end(), "a name of a gemm operand without a place");
      int64_t index = place->index;
      const bool aligned = extent.dim >= 0 && graph_.dims[extent.dim].kind == ir::DimKind::aligned;
      if (aligned && !graph_.same_name(extent, contracted_)) {
        const Groups& base = *problem_.groups(graph_.dims[extent.dim].base);
        const int32_t group = base.group_of[index];
        if (group < 0) return no_position;
        index += problem_.groups(extent.dim)->start[group] - base.start[group];
      }
      if (index < 0 || index >= extents[axis]) return no_position;
      position = position * extents[axis] + index;
    }
    return position;
  }

  const Problem& problem_;
  const ir::Graph& graph_;
  NodeId operand_;
  Extent contracted_;
};

class Planner {
 public:
  Planner(const Problem& problem, NodeId id) : problem_(problem), graph_(problem.graph()), node_(graph_.nodes[id]) {}

  Result<GemmPlan> run() {
    NodeId a = node_.args[0], b = node_.args[1];
    contracted_ = graph_.base_name(node_.along);
    classify(a, b);
    // Rows are the operand whose rows are cut into groups, else the one that does not have the result's last name.
    const bool last_is_a = !node_.shape.empty() && graph_.has_name(a_free_, node_.shape.back());
    if (ragged_in_b_ || (!ragged_in_a_ && last_is_a)) {
      std::swap(a, b);
      classify(a, b);
    }
    a_node_ = a;
    if (Status status = operand(a, a_shape(), plan_.task.a); !status) return status.error();
    if (Status status = operand(b, b_shape(), plan_.task.b); !status) return status.error();
    blocks();
    plan_.task.node = &node_;
    plan_.task.cols = count(b_free_);
    return std::move(plan_);
  }

 private:
  const Groups* groups(const Extent& name) const {
    return name.times == 1 && name.over == 1 ? problem_.groups(name.dim) : nullptr;
  }
  bool ragged_contraction() const { return groups(contracted_) != nullptr; }

  Extent group_count(const Extent& grouped) const { return {1, graph_.dims[grouped.dim].cut_by, 1}; }

  void classify(NodeId a, NodeId b) {
    const Shape &as = graph_.nodes[a].shape, &bs = graph_.nodes[b].shape;
    batch_.clear(), a_free_.clear(), b_free_.clear();
    for (const Extent& e : as)
      if (!graph_.same_name(e, contracted_)) (graph_.has_name(bs, e) ? batch_ : a_free_).push_back(graph_.base_name(e));
    for (const Extent& e : bs)
      if (!graph_.same_name(e, contracted_) && !graph_.has_name(as, e)) b_free_.push_back(graph_.base_name(e));
    ragged_in_a_ = take_groups(a_free_, b_free_);
    ragged_in_b_ = !ragged_in_a_ && take_groups(b_free_, a_free_);
  }

  // Whether `rows` has a dimension cut by a name of `counts`. It then leads the rows, and the count is taken out.
  bool take_groups(Shape& rows, Shape& counts) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!groups(rows[i])) continue;
      const Extent count = group_count(rows[i]);
      const auto it = std::find(counts.begin(), counts.end(), count);
      if (it == counts.end()) continue;
      counts.erase(it);
      grouped_ = rows[i];
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i));
      rows.insert(rows.begin(), grouped_);
      return true;
    }
    return false;
  }

  Shape a_shape() const {
    Shape shape = batch_;
    shape.insert(shape.end(), a_free_.begin(), a_free_.end());
    return shape;
  }
  Shape b_shape() const {
    Shape shape = batch_;
    if (ragged_in_a_) shape.push_back(group_count(grouped_));
    shape.insert(shape.end(), b_free_.begin(), b_free_.end());
    return shape;
  }

  int64_t count(const Shape& shape) const {
    int64_t product = 1;
    for (const Extent& e : shape) product *= problem_.size(e);
    return product;
  }

  // Fills the table of row positions for all indices of `shape`, in row-major order.
  Status operand(NodeId id, const Shape& shape, GemmOperand& into) {
    const OperandReader reader(problem_, id, node_.along);
    const ir::Input& input = graph_.inputs[reader.input()];
    const HostTensor* tensor = problem_.input(reader.input());
    if (!tensor)
      return user_error(fmt::format("'{}' is an operand of a gemm and cannot be left out", input.tensor.name));
    const int64_t rows = count(shape);
    into.rows.resize(static_cast<size_t>(rows));
    std::vector<Place> places;
    for (const Extent& e : shape) places.push_back({e, 0});
    places.push_back({contracted_, 0});
    const HostTensor* plain = tensor;
    if (input.tensor.type.scaled()) {
      const Result<const HostTensor*> made = dequantise(input.tensor, *tensor, *problem_.input_scale(reader.input()));
      if (!made) return made.error();
      plain = *made;
    }
    into.tensor = plain;
    std::optional<std::vector<Place>> some_row;  // one that lies in the buffer
    for (int64_t row = 0; row < rows; ++row) {
      move_to_row(row, shape, places);
      into.rows[row] = reader.position(places);
      if (!some_row && into.rows[row] != no_position) some_row = places;
    }
    if (reader.gathers_contraction() || (some_row && !find_step(reader, *some_row, into))) {
      lay_out(reader, shape, places, *plain, into);
    }
    return {};
  }

  void move_to_row(int64_t row, const Shape& shape, std::vector<Place>& places) const {
    for (size_t i = shape.size(); i-- > 0;) {
      places[i].index = row % problem_.size(shape[i]);
      row /= problem_.size(shape[i]);
    }
    places.back().index = 0;
  }

  // Whether neighbours along the contraction lie at equal distances; the distance.
  bool find_step(const OperandReader& reader, std::vector<Place> places, GemmOperand& into) const {
    const int64_t origin = reader.position(places);
    const int64_t depth = problem_.size(contracted_);
    for (int64_t k = 1; k < depth; ++k) {
      places.back().index = k;
      const int64_t position = reader.position(places);
      if (k == 1) into.k_step = position - origin;
      // Positions beyond a buffer over an aligned dimension are never multiplied.
      if (position != no_position && position != origin + k * into.k_step) return false;
    }
    return true;
  }

  // Copies the operand into rows of its own: what it contracts is dealt out in pieces, or gathered.
  void lay_out(const OperandReader& reader, const Shape& shape, std::vector<Place> places, const HostTensor& from,
               GemmOperand& into) {
    const int64_t rows = static_cast<int64_t>(into.rows.size()), depth = problem_.size(contracted_);
    HostTensor& copy = plan_.made.emplace_back(make_tensor(from.storage, {rows, depth}));
    for (int64_t row = 0; row < rows; ++row) {
      move_to_row(row, shape, places);
      for (int64_t k = 0; k < depth; ++k) {
        places.back().index = k;
        if (const int64_t at = reader.position(places); at != no_position)
          store_code(copy, row * depth + k, load_code(from, at));
      }
      into.rows[row] = row * depth;
    }
    into.tensor = &copy;
    into.k_step = 1;
  }

  Result<const HostTensor*> dequantise(const ir::Tensor& declared, const HostTensor& codes, const HostTensor& scale) {
    HostTensor& plain = plan_.made.emplace_back(make_tensor(Storage::f32, codes.extents));
    const Result<ScaledTensor> scaled = ScaledTensor::make(problem_, declared);
    if (!scaled) return scaled.error();
    const size_t rank = codes.extents.size();
    constexpr int64_t chunk = 1 << 16;
    parallel_for((plain.elements() + chunk - 1) / chunk, 0, [&](int64_t task) {
      std::vector<int64_t> place(rank);
      for (int64_t i = task * chunk; i < std::min(plain.elements(), (task + 1) * chunk); ++i) {
        int64_t rest = i;
        for (size_t axis = rank; axis-- > 0; rest /= codes.extents[axis]) place[axis] = rest % codes.extents[axis];
        store_one(plain, i, scaled->value(codes, scale, i, place.data()));
      }
    });
    return &plain;
  }

  // Blocks of all batches, and in each of all groups.
  void blocks() {
    GemmTask& task = plan_.task;
    const int64_t batches = count(batch_), a_rows = count(a_free_), cols = count(b_free_);
    const int64_t depth = problem_.size(contracted_);
    Shape row_names = batch_;
    if (ragged_contraction()) row_names.push_back(group_count(contracted_));
    row_names.insert(row_names.end(), a_free_.begin(), a_free_.end());
    axes(plan_.row_axes, row_names);
    axes(plan_.col_axes, b_free_);
    task.rows = count(row_names);
    for (int64_t batch = 0; batch < batches; ++batch) {
      const int64_t a_begin = batch * a_rows;
      if (ragged_contraction()) {
        const Groups& a_groups = *contracted_groups(0);
        const Groups& b_groups = *contracted_groups(1);
        const auto groups = static_cast<int64_t>(a_groups.start.size());
        for (int64_t e = 0; e < groups; ++e)
          task.blocks.push_back({a_begin, a_rows, batch * cols, a_groups.start[e], b_groups.start[e],
                                 a_groups.count(static_cast<size_t>(e)), (batch * groups + e) * a_rows});
      } else if (ragged_in_a_) {
        const Groups& base = *groups(grouped_);
        const int64_t per_row = a_rows / std::max<int64_t>(1, problem_.size(grouped_));
        const auto groups = static_cast<int64_t>(base.start.size());
        for (int64_t e = 0; e < groups; ++e) {
          const int64_t begin = a_begin + base.start[e] * per_row;
          task.blocks.push_back(
              {begin, base.count(static_cast<size_t>(e)) * per_row, (batch * groups + e) * cols, 0, 0, depth, begin});
        }
      } else {
        task.blocks.push_back({a_begin, a_rows, batch * cols, 0, 0, depth, a_begin});
      }
    }
  }

  // Of A (0) or B (1).
  const Groups* contracted_groups(int which) const {
    const NodeId id = node_.args[swapped() ? 1 - which : which];
    return OperandReader(problem_, id, node_.along).contracted_groups();
  }

  bool swapped() const { return a_node_ != node_.args[0]; }

  void axes(std::vector<GemmAxis>& into, const Shape& shape) const {
    int64_t stride = count(shape);
    for (const Extent& e : shape) {
      stride /= std::max<int64_t>(1, problem_.size(e));
      into.push_back({e, stride});
    }
  }

  const Problem& problem_;
  const ir::Graph& graph_;
  const Node& node_;
  NodeId a_node_ = -1;
  Extent contracted_, grouped_;
  Shape batch_, a_free_, b_free_;
  bool ragged_in_a_ = false, ragged_in_b_ = false;
  GemmPlan plan_;
};

}  // namespace

Result<GemmPlan> plan_gemm(const Problem& problem, ir::NodeId node) { return Planner(problem, node).run(); }

}  // namespace epifuse::interpreter
