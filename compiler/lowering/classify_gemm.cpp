#include "compiler/lowering/classify_gemm.h"

#include <algorithm>
#include <fmt/format.h>

namespace epifuse::lowering {
namespace {

using ir::DimKind;
using ir::Extent;
using ir::Op;

constexpr const char* not_yet = "this is part of the language, but the compiler cannot lower it yet";

class Classifier {
 public:
  Classifier(const ir::Graph& graph, Diagnostics& diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  std::optional<Gemm> run() {
    refuse_operations();
    if (gemm_.node < 0) {
      if (!failed_)
        refuse(graph_.outputs.empty() ? Span{} : graph_.outputs.front().tensor.where, "a kernel without gemm");
      return std::nullopt;
    }
    take_operands();
    if (!failed_) name_dimensions();
    if (!failed_) find_parts();
    if (!failed_) check_sizes();
    return failed_ ? std::nullopt : std::optional(gemm_);
  }

 private:
  // Once for a place: grad gives several nodes.
  void refuse(const Span& where, const std::string& what, const std::string& hint = not_yet) {
    for (const Diagnostic& said : diagnostics_.all())
      if (said.where.offset == where.offset && said.message.starts_with(what)) return;
    diagnostics_.error(where, what + " is not lowered yet", hint);
    failed_ = true;
  }
  void mistake(const Span& where, const std::string& what, const std::string& hint) {
    diagnostics_.error(where, what, hint);
    failed_ = true;
  }

  void refuse_operations() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& node = graph_.nodes[i];
      switch (node.op) {
        case Op::gemm:
          if (gemm_.node >= 0)
            refuse(node.where, "a second gemm in one kernel");
          else
            gemm_.node = static_cast<ir::NodeId>(i);
          break;
        case Op::gather:
        case Op::join:
        case Op::hadamard:
        case Op::group_ends:
        case Op::grad: refuse(node.where, fmt::format("'{}'", ir::op_info(node.op).name)); break;
        default: break;
      }
    }
    for (const ir::Output& output : graph_.outputs) {
      if (output.left_out) continue;
      if (output.reduction != ir::Reduction::none)
        refuse(output.tensor.where, output.reduction == ir::Reduction::sum ? "'sum' at an out" : "'amax' at an out");
      if (output.accumulate) refuse(output.tensor.where, "'+='");
      if (output.tensor.pointer_axes) refuse(output.tensor.where, "an output of one buffer for each group");
    }
  }

  void take_operands() {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(gemm_.node)];
    // First: what else is unusual about the operands of such a product follows from it.
    if (refuse_launch_depth(node)) return;
    ir::InputId operands[2];
    for (int side = 0; side < 2; ++side) {
      const ir::Node& operand = graph_.nodes[static_cast<size_t>(node.args[static_cast<size_t>(side)])];
      if (operand.op != Op::input) {
        refuse(operand.where,
               operand.op == Op::split ? "a half of an input as operand of gemm" : "this operand of gemm");
        return;
      }
      operands[side] = operand.index;
      const ir::Tensor& tensor = graph_.inputs[static_cast<size_t>(operand.index)].tensor;
      if (tensor.type.format != ir::Format::bf16 && tensor.type.format != ir::Format::f16)
        refuse(tensor.where, fmt::format("a gemm operand of type {}", ir::print_type(tensor.type)),
               "bf16 and f16 operands are lowered");
      if (tensor.pointer_axes) refuse(tensor.where, "a weight of one buffer for each group");
      if (!(graph_.base_name(tensor.shape.back()) == graph_.base_name(node.along)))
        refuse(tensor.where, fmt::format("a gemm operand {} whose last dimension is not the contracted {}",
                                         graph_.shape_text(tensor.shape), graph_.extent_text(node.along)));
    }
    if (failed_) return;
    if (input(operands[0]).tensor.type.format != input(operands[1]).tensor.type.format)
      refuse(node.where,
             fmt::format("a gemm of {} and {} operands", ir::print_type(input(operands[0]).tensor.type),
                         ir::print_type(input(operands[1]).tensor.type)),
             "give both the same type");
    // Rows come from the operand with the grouped or dynamic dimension; of two fixed ones, from the first.
    const bool second_has_rows = !has_launch_rows(operands[0]) && has_launch_rows(operands[1]);
    gemm_.a = operands[second_has_rows];
    gemm_.b = operands[!second_has_rows];
    gemm_.operand = input(gemm_.a).tensor.type.storage();
    gemm_.depth = node.along;
  }

  bool refuse_launch_depth(const ir::Node& node) {
    if (node.along.dim < 0) return false;
    const DimKind kind = dim(node.along.dim).kind;
    if (kind == DimKind::fixed) return false;
    const std::string along = graph_.extent_text(node.along);
    refuse(node.where, kind == DimKind::dynamic
                           ? fmt::format("contracting {}, whose size is known at launch only,", along)
                           : fmt::format("a weight gradient (a gemm that contracts the grouped dimension {})", along));
    return true;
  }

  const ir::Input& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)]; }
  const ir::Dimension& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)]; }

  bool has_launch_rows(ir::InputId id) const {
    const ir::Shape& shape = input(id).tensor.shape;
    return std::any_of(shape.begin(), shape.end(),
                       [&](const Extent& e) { return e.dim >= 0 && dim(e.dim).kind != DimKind::fixed; });
  }

  void name_dimensions() {
    const ir::Tensor& a = input(gemm_.a).tensor;
    const ir::Tensor& b = input(gemm_.b).tensor;
    if (a.shape.size() != 2) {
      refuse(a.where, a.shape.size() == 3 ? "a batched gemm" : "a gemm operand of this rank");
      return;
    }
    gemm_.rows = a.shape[0];
    const bool grouped = gemm_.rows.dim >= 0 && dim(gemm_.rows.dim).kind == DimKind::grouped;
    if (gemm_.rows.dim >= 0 && dim(gemm_.rows.dim).kind == DimKind::aligned) {
      refuse(a.where, "a gemm operand whose rows lie over an aligned dimension");
      return;
    }
    if (grouped) {
      const ir::Dimension& rows = dim(gemm_.rows.dim);
      gemm_.form = GemmForm::ragged_rows;
      gemm_.groups = rows.cut_by;
      if (rows.slot) refuse(rows.where, "'slot' in a group clause");
      if (b.shape.size() != 3 || b.shape[0].dim != rows.cut_by || !(b.shape[0] == Extent{1, rows.cut_by, 1}))
        refuse(b.where, fmt::format("a weight {} without the group dimension {} in front", graph_.shape_text(b.shape),
                                    dim(rows.cut_by).name));
    } else {
      gemm_.form = GemmForm::dense;
      if (b.shape.size() != 2) refuse(b.where, "a batched gemm");
    }
    if (!failed_) gemm_.columns = b.shape[b.shape.size() - 2];
  }

  void find_parts() {
    for (const ir::Node& node : graph_.nodes) {
      if (node.op != Op::split) continue;
      const ir::Shape& whole = graph_.nodes[static_cast<size_t>(node.args[0])].shape;
      const bool of_columns = std::find(whole.begin(), whole.end(), gemm_.columns) != whole.end() &&
                              !graph_.has_name(node.shape, gemm_.columns);
      if (!of_columns) {
        refuse(node.where, "a split of something else than the columns of gemm");
        return;
      }
      if (gemm_.parts == 2 && node.piece != gemm_.piece) {
        refuse(node.where, "two splits with different pieces in one kernel");
        return;
      }
      gemm_.parts = 2;
      gemm_.piece = node.piece;
    }
  }

  void check_sizes() {
    const std::optional<int64_t> columns = graph_.fixed_value(gemm_.columns), depth = graph_.fixed_value(gemm_.depth);
    const Span& weight = input(gemm_.b).tensor.where;
    if (!columns || !depth) {
      const Extent& missing = columns ? gemm_.depth : gemm_.columns;
      mistake(weight, fmt::format("{} has no value", graph_.extent_text(missing)),
              fmt::format("give the dimension a default, or bind it: --dims {}=…",
                          missing.dim >= 0 ? dim(missing.dim).name : "NAME"));
      return;
    }
    gemm_.part_columns = *columns / gemm_.parts;
    if (*depth % 8 != 0)
      refuse(weight,
             fmt::format("a contracted dimension {} = {}, which is no multiple of 8,", graph_.extent_text(gemm_.depth),
                         *depth),
             "rows of 16-bit operands must be a multiple of 16 bytes apart");
    if (gemm_.part_columns % 8 != 0)
      refuse(weight,
             fmt::format("{} = {} columns in {} part{}, no multiple of 8 each,", graph_.extent_text(gemm_.columns),
                         *columns, gemm_.parts, gemm_.parts == 1 ? "" : "s"),
             "use a multiple of 8 columns in each part");
  }

  const ir::Graph& graph_;
  Diagnostics& diagnostics_;
  Gemm gemm_;
  bool failed_ = false;
};

}  // namespace

std::optional<Gemm> classify_gemm(const ir::Graph& graph, Diagnostics& diagnostics) {
  return Classifier(graph, diagnostics).run();
}

}  // namespace epifuse::lowering
