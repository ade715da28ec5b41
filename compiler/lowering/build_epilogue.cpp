#include "compiler/lowering/build_epilogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace epifuse::lowering {
namespace {

using ir::DimKind;
using ir::Extent;
using ir::Op;
using Kind = EpilogueNode::Kind;

constexpr int any_part = -1;

bool same(const EpilogueInput& a, const EpilogueInput& b) { return a.input == b.input && a.part == b.part; }

class Builder {
 public:
  Builder(const ir::Graph& graph, const Gemm& gemm, Diagnostics& diagnostics)
      : graph_(graph), gemm_(gemm), diagnostics_(diagnostics) {
    half_ = gemm.columns;
    if (gemm.parts == 2) {
      // 2*I becomes I; N becomes N/2. Either is the name that the resolver gives to a half.
      if (half_.times % 2 == 0)
        half_.times /= 2;
      else
        half_.over *= 2;
    }
    result_.places.push_back({gemm.rows.dim, gemm.form == GemmForm::ragged_rows ? dim(gemm.rows.dim).align : 1});
  }

  std::optional<EpilogueAndPlaces> run() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) add_sink(static_cast<int>(i));
    if (failed_) return std::nullopt;
    return result_;
  }

 private:
  const ir::Dimension& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)]; }

  // Once for a place: both halves of a tensor are looked at.
  void refuse(const Span& where, const std::string& what) {
    for (const Diagnostic& said : diagnostics_.all())
      if (said.where.offset == where.offset && said.message.starts_with(what)) return;
    diagnostics_.error(where, what + " is not lowered yet",
                       "this is part of the language, but the compiler cannot lower it yet");
    failed_ = true;
  }

  bool is_rows(const Extent& extent) const { return graph_.same_name(extent, gemm_.rows); }
  // Columns of a part: of a half where there are two.
  bool is_columns(const Extent& extent) const { return extent == half_; }
  bool is_doubled(const Extent& extent) const { return gemm_.parts == 2 && extent == gemm_.columns; }
  bool is_group(const Extent& extent) const {
    return gemm_.form == GemmForm::ragged_rows && extent == Extent{1, gemm_.groups, 1};
  }

  int place_of(const Extent& rows) {
    if (rows == gemm_.rows) return 0;
    for (size_t i = 1; i < result_.places.size(); ++i)
      if (result_.places[i].dim == rows.dim) return static_cast<int>(i);
    result_.places.push_back({rows.dim, dim(rows.dim).align});
    return static_cast<int>(result_.places.size()) - 1;
  }

  int add(EpilogueNode node) {
    result_.epilogue.nodes.push_back(std::move(node));
    return static_cast<int>(result_.epilogue.nodes.size()) - 1;
  }

  // The scalar value of a graph node in one half (any_part where it has no columns of both).
  int value(ir::NodeId id, int part) {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
    if (node.op == Op::split) return value(node.args[0], node.index);
    // The names of a value have no order.
    const bool doubled =
        std::any_of(node.shape.begin(), node.shape.end(), [&](const Extent& e) { return is_doubled(e); });
    const std::pair<ir::NodeId, int> key{id, doubled || gemm_.parts == 1 ? part : any_part};
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const int made = make(node, part);
    known_[key] = made;
    return made;
  }

  int make(const ir::Node& node, int part) {
    EpilogueNode out;
    switch (node.op) {
      case Op::number:
        out.kind = Kind::number;
        out.number = node.number;
        return add(out);
      case Op::param:
        out.kind = Kind::param;
        out.index = node.index;
        return add(out);
      case Op::gemm:
        out.kind = Kind::accumulator;
        out.index = part == any_part ? 0 : part;
        return add(out);
      case Op::input:
        out.kind = Kind::input;
        out.index = input(node, part);
        return add(out);
      default:
        out.kind = Kind::map;
        out.op = node.op;
        out.to = node.to;
        if (node.op == Op::cast && storage_bits(node.to) > 16 && node.to != Storage::f32)
          refuse(node.where, fmt::format("cast to {}", storage_name(node.to)));
        for (const ir::NodeId argument : node.args) out.args.push_back(value(argument, part));
        return add(out);
    }
  }

  int input(const ir::Node& node, int part) {
    const ir::Tensor& tensor = graph_.inputs[static_cast<size_t>(node.index)].tensor;
    EpilogueInput made;
    made.input = node.index;
    classify_input(tensor, made);
    if (made.doubled) made.part = part;
    std::vector<EpilogueInput>& inputs = result_.epilogue.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (same(inputs[i], made)) return static_cast<int>(i);
    inputs.push_back(made);
    return static_cast<int>(inputs.size()) - 1;
  }

  void classify_input(const ir::Tensor& tensor, EpilogueInput& made) {
    if (tensor.type.scaled() || tensor.type.format == ir::Format::i32 || tensor.type.format == ir::Format::i64)
      refuse(tensor.where, fmt::format("an epilogue input of type {}", ir::print_type(tensor.type)));
    if (tensor.pointer_axes) refuse(tensor.where, "an epilogue input of one buffer for each group");
    const ir::Shape& shape = tensor.shape;
    const size_t rank = shape.size();
    auto columns_at = [&](size_t axis) {
      made.doubled = is_doubled(shape[axis]);
      return made.doubled || is_columns(shape[axis]);
    };
    if (rank == 0) {
      made.broadcast = Broadcast::scalar;
    } else if (rank == 1 && is_group(shape[0])) {
      made.broadcast = Broadcast::group;
    } else if (rank == 1 && shape[0] == gemm_.rows) {
      made.broadcast = Broadcast::row;
    } else if (rank == 1 && columns_at(0)) {
      made.broadcast = Broadcast::column;
    } else if (rank == 2 && is_group(shape[0]) && columns_at(1)) {
      made.broadcast = Broadcast::column;
      made.per_group = true;
    } else if (rank == 2 && shape[0] == gemm_.rows && columns_at(1)) {
      made.broadcast = Broadcast::tile;
      if (made.doubled && gemm_.piece % block_columns != 0)
        refuse(tensor.where, fmt::format("a full-tile input over columns dealt out in pieces of {}", gemm_.piece));
    } else {
      refuse(tensor.where, fmt::format("an epilogue input of shape {}", graph_.shape_text(shape)));
    }
  }

  void add_sink(int index) {
    const ir::Output& output = graph_.outputs[static_cast<size_t>(index)];
    const ir::Shape& shape = output.tensor.shape;
    const ir::TensorType& type = output.tensor.type;
    auto columns_extent = [&](const Extent& e) { return is_columns(e) || is_doubled(e); };
    bool transposed = false;
    if (shape.size() == 2 && is_rows(shape[0]) && columns_extent(shape[1])) {
      transposed = false;
    } else if (shape.size() == 2 && columns_extent(shape[0]) && is_rows(shape[1])) {
      transposed = true;
    } else {
      refuse(output.tensor.where, fmt::format("an output of shape {}", graph_.shape_text(shape)));
      return;
    }
    if (type.format == ir::Format::i32 || type.format == ir::Format::i64) {
      refuse(output.tensor.where, fmt::format("an output of type {}", ir::print_type(type)));
      return;
    }
    if (type.scaled() && !is_plain_mxfp8(type)) {
      refuse(output.tensor.where, fmt::format("an output of type {}", ir::print_type(type)));
      return;
    }
    Sink sink;
    sink.output = index;
    sink.kind = type.scaled() ? (transposed ? SinkKind::mx_transposed : SinkKind::mx_rows)
                              : (transposed ? SinkKind::transposed : SinkKind::rows);
    sink.place = place_of(shape[transposed ? 1 : 0]);
    const bool doubled = is_doubled(shape[transposed ? 0 : 1]);
    for (int part = 0; part < (doubled ? 2 : 1); ++part)
      sink.values.push_back(value(output.value, doubled || gemm_.parts == 1 ? part : any_part));
    if (doubled && gemm_.piece != 0 && gemm_.piece % block_columns != 0) {
      if (type.scaled())
        refuse(output.tensor.where, fmt::format("blocks of 32 over columns dealt out in pieces of {}", gemm_.piece));
      if (transposed && gemm_.piece == 1) refuse(output.tensor.where, "a transposed output of alternating columns");
    }
    if (doubled && type.scaled() && gemm_.part_columns % block_columns != 0)
      refuse(output.tensor.where, "blocks of 32 that lie across both halves");
    result_.epilogue.sinks.push_back(std::move(sink));
  }

  static bool is_plain_mxfp8(const ir::TensorType& type) {
    return type.format == ir::Format::mxfp8 && type.rule == ir::ScaleRule::up && type.layout == ir::ScaleLayout::rows &&
           type.nonfinite == ir::NonFinite::propagate && type.along_axis < 0 && type.seed_input.empty();
  }

  const ir::Graph& graph_;
  const Gemm& gemm_;
  Diagnostics& diagnostics_;
  Extent half_;
  EpilogueAndPlaces result_;
  std::map<std::pair<ir::NodeId, int>, int> known_;
  bool failed_ = false;
};

}  // namespace

std::optional<EpilogueAndPlaces> build_epilogue(const ir::Graph& graph, const Gemm& gemm, Diagnostics& diagnostics) {
  return Builder(graph, gemm, diagnostics).run();
}

}  // namespace epifuse::lowering
