#include "compiler/lowering/build_epilogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "compiler/lowering/plan_groups.h"
#include "compiler/lowering/plan_quantised.h"

namespace epifuse::lowering {
namespace {

using ir::DimKind;
using ir::Extent;
using ir::Op;
using Kind = EpilogueNode::Kind;

constexpr int any_part = -1;
constexpr int rotated_elements = 16;  // of a hadamard's block

bool same(const EpilogueInput& a, const EpilogueInput& b) { return a.input == b.input && a.part == b.part; }

class Builder {
 public:
  Builder(const ir::Graph& graph, const Gemm& gemm, Diagnostics& diagnostics)
      : graph_(graph), gemm_(gemm), diagnostics_(diagnostics), doubled_(ir::twice(gemm.columns)) {
    if (doubled_ == gemm.rows) doubled_ = {0, -1, 1};  // no shape has it: the name is that of the rows
    result_.places.push_back({gemm.rows.dim, gemm.form == GemmForm::ragged_rows ? dim(gemm.rows.dim).align : 1});
  }

  std::optional<EpilogueAndPlaces> run() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (!graph_.outputs[i].left_out && !is_group_ends(graph_, graph_.outputs[i])) add_sink(static_cast<int>(i));
    if (!failed_ && gemm_.form == GemmForm::ragged_depth && is_ragged(graph_, gemm_)) refuse_mixed_sums();
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
  bool is_columns(const Extent& extent) const { return extent == gemm_.columns || extent == doubled_; }
  bool is_doubled(const Extent& extent) const { return extent == doubled_; }
  bool is_group(const Extent& extent) const { return gemm_.grouped() && extent == gemm_.groups; }
  bool is_doubled(const ir::Shape& shape) const {
    return std::any_of(shape.begin(), shape.end(), [&](const Extent& e) { return is_doubled(e); });
  }
  // Batches and results of groups have a leading dimension of their own, before that of the rows.
  bool leads() const { return gemm_.form == GemmForm::batched || gemm_.form == GemmForm::ragged_depth; }

  int add_place(const Place& place) {
    for (size_t i = 0; i < result_.places.size(); ++i)
      if (result_.places[i].dim == place.dim && result_.places[i].local == place.local &&
          result_.places[i].alignment == place.alignment)
        return static_cast<int>(i);
    result_.places.push_back(place);
    return static_cast<int>(result_.places.size()) - 1;
  }
  int place_of(const Extent& rows) { return rows == gemm_.rows ? 0 : add_place({rows.dim, dim(rows.dim).align}); }
  int local_place() { return add_place({gemm_.rows.dim, 1, true}); }

  int add(EpilogueNode node) {
    result_.epilogue.nodes.push_back(std::move(node));
    return static_cast<int>(result_.epilogue.nodes.size()) - 1;
  }

  // A graph node in one half; any_part where it does not lie over both.
  using Wanted = std::pair<ir::NodeId, int>;

  // The value behind splits and joins.
  Wanted source(ir::NodeId id, int part) const {
    while (true) {
      const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
      if (node.op != Op::split && node.op != Op::join) return {id, is_doubled(node.shape) ? part : any_part};
      id = node.args[node.op == Op::split ? 0 : static_cast<size_t>(part)];
      part = node.op == Op::split ? node.index : any_part;
    }
  }

  // The scalar value of a graph node in one half. Each value comes behind its arguments; a stack of its own, since a
  // chain of operations may be longer than the machine's is deep.
  int value(ir::NodeId id, int part) {
    const Wanted wanted = source(id, part);
    std::vector<Wanted> open{wanted};
    while (!open.empty()) {
      const Wanted now = open.back();
      const std::optional<Wanted> missing = known_.contains(now) ? std::nullopt : missing_argument(now);
      if (missing) {
        open.push_back(*missing);
        continue;
      }
      open.pop_back();
      if (!known_.contains(now)) known_[now] = make(now.first, now.second);
    }
    return known_.at(wanted);
  }

  std::optional<Wanted> missing_argument(const Wanted& wanted) const {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(wanted.first)];
    if (!is_map(node)) return std::nullopt;
    for (const ir::NodeId argument : node.args)
      if (const Wanted source = this->source(argument, wanted.second); !known_.contains(source)) return source;
    return std::nullopt;
  }

  bool is_map(const ir::Node& node) const {
    const bool leaf = node.op == Op::number || node.op == Op::param || node.op == Op::gemm || node.op == Op::input;
    return !leaf && !is_sum_of_products(node);
  }
  // It is made in the main loop.
  bool is_sum_of_products(const ir::Node& node) const {
    return gemm_.segments == 2 && node.op == Op::add && is_product(node.args[0]) && is_product(node.args[1]);
  }

  bool is_product(ir::NodeId id) const {
    return std::find(gemm_.nodes.begin(), gemm_.nodes.end(), id) != gemm_.nodes.end();
  }

  int make(ir::NodeId id, int part) {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
    EpilogueNode out;
    if (is_sum_of_products(node)) {
      out.kind = Kind::accumulator;
      return add(out);
    }
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
        out.index = gemm_.weights == 2 ? (id == gemm_.nodes[0] ? 0 : 1) : part == any_part ? 0 : part;
        return add(out);
      case Op::input:
        out.kind = Kind::input;
        out.index = input(node, part);
        return add(out);
      case Op::hadamard:
        out.kind = Kind::hadamard;
        out.along_rows = is_rows(node.along);
        out.signs = node.signs.value_or(0);
        out.args = {known_.at(source(node.args[0], part))};
        check_rotation(node);
        return add(out);
      default:
        out.kind = Kind::map;
        out.op = node.op;
        out.to = node.to;
        if (node.op == Op::cast && storage_bits(node.to) > 16 && node.to != Storage::f32)
          refuse(node.where, fmt::format("cast to {}", storage_name(node.to)));
        for (const ir::NodeId argument : node.args) out.args.push_back(known_.at(source(argument, part)));
        return add(out);
    }
  }

  // 16 columns of a rotation must be 16 columns of a part.
  void check_rotation(const ir::Node& node) {
    if (is_rows(node.along)) return;
    const std::string along = graph_.extent_text(node.along);
    if (!is_columns(node.along))
      refuse(node.where, fmt::format("hadamard along {}, neither the rows nor the columns of the kernel,", along));
    else if (is_doubled(node.along) && gemm_.piece % rotated_elements != 0)
      refuse(node.where, fmt::format("hadamard along {}, dealt out in pieces of {},", along, gemm_.piece));
    else if (is_doubled(node.along) && gemm_.piece == 0 && gemm_.part_columns % rotated_elements != 0)
      refuse(node.where,
             fmt::format("hadamard along {}, whose halves of {} are no multiple of 16,", along, gemm_.part_columns));
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
    ir::Shape shape = tensor.shape;
    made.doubled = is_doubled(shape);
    const bool grouped = !shape.empty() && is_group(shape[0]);
    if (grouped) shape.erase(shape.begin());
    const bool rows = !shape.empty() && shape[0] == gemm_.rows;
    const bool columns = !shape.empty() && is_columns(shape.back());
    // Rows of a batch lie behind those of the batch before; without that dimension they would be counted from its
    // start.
    const bool rows_fit = grouped == leads();
    made.pointers = tensor.pointer_axes != 0;
    if (shape.empty()) {
      made.broadcast = grouped ? Broadcast::group : Broadcast::scalar;
    } else if (shape.size() == 1 && columns) {
      made.broadcast = Broadcast::column;
      made.per_group = grouped;
    } else if (shape.size() == 1 && rows && rows_fit) {
      made.broadcast = Broadcast::row;
    } else if (shape.size() == 2 && rows && columns && rows_fit) {
      made.broadcast = Broadcast::tile;
      const bool alternate = made.doubled && gemm_.piece % block_columns != 0;
      if (alternate && ((gemm_.piece != 1 && gemm_.piece != 8) || storage_bits(tensor.type.storage()) != 16))
        refuse(tensor.where, fmt::format("a full-tile input of type {} over columns dealt out in pieces of {}",
                                         ir::print_type(tensor.type), gemm_.piece));
    } else {
      refuse(tensor.where, fmt::format("an epilogue input of shape {}", graph_.shape_text(tensor.shape)));
    }
    if (made.pointers && !(made.broadcast == Broadcast::column && made.per_group))
      refuse(tensor.where, "an epilogue input of one buffer for each group");
  }

  void add_sink(int index) {
    const ir::Output& output = graph_.outputs[static_cast<size_t>(index)];
    const ir::TensorType& type = output.tensor.type;
    if (type.format == ir::Format::i32 || type.format == ir::Format::i64) {
      refuse(output.tensor.where, fmt::format("an output of type {}", ir::print_type(type)));
      return;
    }
    Sink sink;
    sink.output = index;
    sink.accumulate = output.accumulate;
    sink.reduction = output.reduction;
    sink.pointers = output.tensor.pointer_axes != 0;
    const bool placed =
        output.reduction == ir::Reduction::none ? place_elements(output, sink) : place_reduced(output, sink);
    if (!placed) {
      refuse(output.tensor.where, fmt::format("an output of shape {}", graph_.shape_text(output.tensor.shape)));
      return;
    }
    const bool doubled = is_doubled(graph_.nodes[static_cast<size_t>(output.value)].shape);
    for (int part = 0; part < (doubled ? 2 : 1); ++part)
      sink.values.push_back(value(output.value, doubled ? part : any_part));
    if (is_mx(sink.kind)) check_blocks(output, doubled);
    if (sink.kind == SinkKind::quantised) sink.quantised.amax = tensor_maximum(type);
    result_.epilogue.sinks.push_back(std::move(sink));
  }

  // What an empty group adds to a sum over all groups is not what is stored for the group, which is zero; where the
  // value is the bare sum, both are.
  void refuse_mixed_sums() {
    const std::vector<Sink>& sinks = result_.epilogue.sinks;
    const bool any_kept = std::any_of(sinks.begin(), sinks.end(), [](const Sink& sink) { return keeps_groups(sink); });
    for (const Sink& sink : sinks)
      for (const int value : sink.values)
        if (any_kept && !keeps_groups(sink) &&
            result_.epilogue.nodes[static_cast<size_t>(value)].kind != Kind::accumulator)
          refuse(graph_.outputs[static_cast<size_t>(sink.output)].tensor.where,
                 "a sum over the groups of a weight gradient beside outputs that keep them");
    // Of an empty group a value that is stored by itself is not what is stored where it is joined to a sum.
    for (const Sink& joined : sinks)
      for (const Sink& alone : sinks)
        if (uses_sums(result_.epilogue, joined) && !uses_sums(result_.epilogue, alone) &&
            std::find_first_of(joined.values.begin(), joined.values.end(), alone.values.begin(), alone.values.end()) !=
                joined.values.end())
          refuse(graph_.outputs[static_cast<size_t>(alone.output)].tensor.where,
                 "an output beside one that joins its value to a weight gradient");
  }

  // Whether the output has one element for each row and column.
  bool place_elements(const ir::Output& output, Sink& sink) {
    ir::Shape shape = output.tensor.shape;
    if (leads()) {
      if (shape.empty() || !is_group(shape[0])) return false;
      shape.erase(shape.begin());
    }
    if (sink.pointers && !leads()) return false;
    if (shape.size() != 2) return false;
    const bool in_rows = is_rows(shape[0]) && is_columns(shape[1]);
    const bool transposed = is_columns(shape[0]) && is_rows(shape[1]);
    if (!in_rows && !transposed) return false;
    sink.kind = transposed ? SinkKind::transposed : SinkKind::rows;
    // A transposed result of a batch, and what has a buffer of its own, counts its rows from 0.
    sink.place = leads() && (transposed || sink.pointers) ? local_place() : place_of(shape[transposed ? 1 : 0]);
    if (output.tensor.type.scaled()) {
      place_scaled(output, transposed, sink);
      refuse_blocks_along_slots(output, sink);
    }
    return true;
  }

  // The tiles' stores of blocks take the end of a group for the end of its gap, and slots have none.
  void refuse_blocks_along_slots(const ir::Output& output, const Sink& sink) {
    const bool along_rows =
        sink.kind == SinkKind::mx_transposed || (sink.kind == SinkKind::quantised && sink.quantised.block_rows > 1);
    if (along_rows && sink.place == 0 && in_slots(graph_, gemm_) && gemm_.form == GemmForm::ragged_rows)
      refuse(output.tensor.where, fmt::format("an output of type {} with blocks along '{}', whose groups lie in slots,",
                                              ir::print_type(output.tensor.type), dim(gemm_.rows.dim).name));
  }

  void place_scaled(const ir::Output& output, bool transposed, Sink& sink) {
    const bool natural_rows = !gemm_.a.empty() && gemm_.a[0].major == Major::mn;
    if (is_plain_mxfp8(output.tensor.type) && !natural_rows) {
      sink.kind = transposed ? SinkKind::mx_transposed : SinkKind::mx_rows;
      return;
    }
    sink.kind = SinkKind::quantised;
    const bool doubled = is_doubled(graph_.nodes[static_cast<size_t>(output.value)].shape);
    const Place& place = result_.places[static_cast<size_t>(sink.place)];
    if (const std::string what = place_blocks(gemm_, output, transposed, doubled, place, sink); !what.empty())
      return refuse(output.tensor.where, what);
    sink.quantised.scale_place = add_place(*scale_place(gemm_, output, sink, place));
  }

  // The value of the input that an nvfp4 output names as its largest magnitude.
  int tensor_maximum(const ir::TensorType& type) {
    if (type.amax_input.empty()) return -1;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ir::Input& in = graph_.inputs[i];
      if (in.tensor.name != type.amax_input) continue;
      EpilogueNode node;
      node.kind = in.left_out ? Kind::number : Kind::input;
      ir::Node read;
      read.index = static_cast<int>(i);
      if (in.left_out)
        node.number = *in.default_value;
      else
        node.index = input(read, any_part);
      return add(node);
    }
    return -1;
  }

  // Whether the output is a reduction of something that lies over rows and columns.
  bool place_reduced(const ir::Output& output, Sink& sink) {
    const ir::Shape& value = graph_.nodes[static_cast<size_t>(output.value)].shape;
    const bool over_rows = std::any_of(value.begin(), value.end(), [&](const Extent& e) { return is_rows(e); });
    const bool over_columns = std::any_of(value.begin(), value.end(), [&](const Extent& e) { return is_columns(e); });
    if (!over_rows || !over_columns) {
      refuse(output.tensor.where, "a reduction of what does not lie over the rows and columns of gemm");
      return true;
    }
    ir::Shape shape = output.tensor.shape;
    sink.per_group = !shape.empty() && is_group(shape[0]);
    if (sink.per_group) shape.erase(shape.begin());
    if (sink.pointers && !sink.per_group) return false;
    if (shape.empty()) {
      sink.kind = SinkKind::reduce_tiles;
    } else if (shape.size() == 1 && is_columns(shape[0])) {
      sink.kind = SinkKind::reduce_columns;
    } else if (shape.size() == 1 && is_rows(shape[0]) && sink.per_group == leads() && !sink.pointers) {
      sink.kind = SinkKind::reduce_rows;
      sink.place = place_of(shape[0]);
    } else {
      return false;
    }
    return true;
  }

  void check_blocks(const ir::Output& output, bool doubled) {
    if (!doubled) return;
    if (gemm_.part_columns % block_columns != 0)
      refuse(output.tensor.where, "blocks of 32 that lie across both halves");
    if (gemm_.piece % block_columns != 0 && gemm_.piece != 1 && gemm_.piece != 8)
      refuse(output.tensor.where, fmt::format("blocks of 32 over columns dealt out in pieces of {}", gemm_.piece));
  }

  static bool is_plain_mxfp8(const ir::TensorType& type) {
    return type.format == ir::Format::mxfp8 && type.rule == ir::ScaleRule::up && type.layout == ir::ScaleLayout::rows &&
           type.nonfinite == ir::NonFinite::propagate && type.along_axis < 0 && type.seed_input.empty();
  }

  const ir::Graph& graph_;
  const Gemm& gemm_;
  Diagnostics& diagnostics_;
  Extent doubled_;
  EpilogueAndPlaces result_;
  std::map<Wanted, int> known_;
  bool failed_ = false;
};

}  // namespace

std::optional<EpilogueAndPlaces> build_epilogue(const ir::Graph& graph, const Gemm& gemm, Diagnostics& diagnostics) {
  return Builder(graph, gemm, diagnostics).run();
}

}  // namespace epifuse::lowering
