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
    if (failed_) return std::nullopt;
    if (gemm_.nodes.empty()) return gemm_;
    std::vector<Product> products;
    for (const ir::NodeId node : gemm_.nodes)
      if (std::optional<Product> product = look_at(node)) products.push_back(*product);
    if (failed_) return std::nullopt;
    if (products.size() == 2) pair_up(products);
    if (!failed_) take(products);
    if (!failed_) find_doubled_names();
    if (!failed_) check_sizes();
    return failed_ ? std::nullopt : std::optional(gemm_);
  }

 private:
  // One gemm, with the operand that gives the rows first.
  struct Product {
    GemmForm form = GemmForm::dense;
    GemmOperand a, b;
    Extent rows, columns, depth, groups{1, -1, 1};
  };

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
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op == Op::gemm) gemm_.nodes.push_back(static_cast<ir::NodeId>(i));
    if (gemm_.nodes.empty()) return;
    for (const ir::Node& node : graph_.nodes)
      if (node.op == Op::gather)
        refuse(node.where, fmt::format("'{}' in a kernel with gemm", ir::op_info(node.op).name));
    if (gemm_.nodes.size() > 2) refuse(graph_.nodes[static_cast<size_t>(gemm_.nodes[2])].where, "a third gemm");
  }

  const ir::Node& node(ir::NodeId id) const { return graph_.nodes[static_cast<size_t>(id)]; }
  const ir::Tensor& tensor(const GemmOperand& operand) const {
    return graph_.inputs[static_cast<size_t>(operand.input)].tensor;
  }
  const ir::Dimension& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)]; }
  bool is_kind(const Extent& e, DimKind kind) const { return e.dim >= 0 && dim(e.dim).kind == kind; }

  // The operand as named in memory: the shape of the half where it is one.
  ir::Shape shape_of(const GemmOperand& operand) const {
    ir::Shape shape = tensor(operand).shape;
    if (operand.half >= 0) shape.back() = ir::half(shape.back());
    return shape;
  }
  std::optional<GemmOperand> operand(ir::NodeId id) {
    GemmOperand made;
    const ir::Node* at = &node(id);
    if (at->op == Op::split) {
      if (at->piece != 0) {
        refuse(at->where, fmt::format("half of an input dealt out in pieces of {} as operand of gemm", at->piece));
        return std::nullopt;
      }
      made.half = at->index;
      at = &node(at->args[0]);
    }
    if (at->op != Op::input) {
      refuse(at->where, "this operand of gemm");
      return std::nullopt;
    }
    made.input = at->index;
    const ir::Tensor& t = tensor(made);
    if (t.type.format != ir::Format::bf16 && t.type.format != ir::Format::f16)
      refuse(t.where, fmt::format("a gemm operand of type {}", ir::print_type(t.type)),
             "bf16 and f16 operands are lowered");
    if (std::any_of(t.shape.begin(), t.shape.end(), [&](const Extent& e) { return is_kind(e, DimKind::aligned); }))
      refuse(t.where, "a gemm operand over an aligned dimension");
    return made;
  }

  std::optional<Product> look_at(ir::NodeId id) {
    const ir::Node& gemm = node(id);
    const std::optional<GemmOperand> first = operand(gemm.args[0]), second = operand(gemm.args[1]);
    if (!first || !second || failed_) return std::nullopt;
    if (tensor(*first).type.format != tensor(*second).type.format)
      refuse(gemm.where,
             fmt::format("a gemm of {} and {} operands", ir::print_type(tensor(*first).type),
                         ir::print_type(tensor(*second).type)),
             "give both the same type");
    Product product;
    product.depth = gemm.along;
    // Rows come from the operand with the grouped or dynamic dimension; of two fixed ones, from the first. Where that
    // dimension is contracted, the result's own order says which name is the row, if an output shows it.
    bool swap = !has_launch_rows(*first, *second) && has_launch_rows(*second, *first);
    if (is_launch(gemm.along)) swap = wants_second_as_rows(*first, *second);
    product.a = swap ? *second : *first;
    product.b = swap ? *first : *second;
    name_dimensions(product, gemm);
    return failed_ ? std::nullopt : std::optional(product);
  }

  bool is_launch(const Extent& e) const { return e.dim >= 0 && dim(e.dim).kind != DimKind::fixed; }
  // Beside a batch, which both have.
  bool has_launch_rows(const GemmOperand& operand, const GemmOperand& other) const {
    const ir::Shape& shape = tensor(operand).shape;
    return std::any_of(shape.begin(), shape.end(),
                       [&](const Extent& e) { return is_launch(e) && !graph_.has_name(tensor(other).shape, e); });
  }
  bool wants_second_as_rows(const GemmOperand& first, const GemmOperand& second) const {
    const Extent of_first = shape_of(first).back(), of_second = shape_of(second).back();
    for (const ir::Output& output : graph_.outputs) {
      const ir::Shape& shape = output.tensor.shape;
      if (output.left_out || shape.size() < 2) continue;
      if (shape.back() == of_first && shape[shape.size() - 2] == of_second) return true;
      if (shape.back() == of_second && shape[shape.size() - 2] == of_first) return false;
    }
    return false;
  }

  void name_dimensions(Product& product, const ir::Node& gemm) {
    const ir::Tensor& a = tensor(product.a);
    const ir::Tensor& b = tensor(product.b);
    const ir::Shape a_shape = shape_of(product.a), b_shape = shape_of(product.b);
    auto major_of = [&](const ir::Shape& shape) {
      return graph_.same_name(shape.back(), gemm.along) ? Major::k : Major::mn;
    };
    product.a.major = major_of(a_shape);
    product.b.major = major_of(b_shape);
    // What an operand has beside the contraction and leading dimensions.
    auto own_name = [](const ir::Shape& shape, Major major) {
      return shape[shape.size() - (major == Major::k ? 2 : 1)];
    };
    auto refuse_rank = [&](const ir::Tensor& t) {
      refuse(t.where, fmt::format("a gemm operand of shape {}", graph_.shape_text(t.shape)));
    };
    if (a_shape.size() < 2 || b_shape.size() < 2) return refuse_rank(a_shape.size() < 2 ? a : b);
    product.rows = own_name(a_shape, product.a.major);
    product.columns = own_name(b_shape, product.b.major);
    const size_t a_leading = a_shape.size() - 2, b_leading = b_shape.size() - 2;
    if (product.a.major == Major::mn && !graph_.same_name(a_shape[a_leading], gemm.along)) return refuse_rank(a);
    if (product.b.major == Major::mn && !graph_.same_name(b_shape[b_leading], gemm.along)) return refuse_rank(b);
    if (a_leading > 1) return refuse_rank(a);
    if (b_leading > 1) return refuse_rank(b);
    refuse_pointer_rows(product);

    const bool grouped_depth = is_kind(gemm.along, DimKind::grouped);
    const ir::DimId grouped_rows = is_kind(product.rows, DimKind::grouped) ? product.rows.dim : -1;
    if (grouped_depth || (a_leading == 1 && is_launch(gemm.along))) {
      product.form = GemmForm::ragged_depth;
      if (grouped_depth) {
        product.groups = {1, dim(gemm.along.dim).cut_by, 1};
        if (a_leading || b_leading) refuse_rank(a_leading ? a : b);
      } else {
        product.groups = a_shape[0];
        if (b_leading != 1 || !(b_shape[0] == a_shape[0])) refuse_rank(b);
      }
      if (product.a.major == Major::k || product.b.major == Major::k)
        refuse(
            gemm.where,
            fmt::format("contracting {} where it is the last dimension of an operand", graph_.extent_text(gemm.along)),
            "store the operand with the contracted rows first");
    } else if (grouped_rows >= 0) {
      product.form = GemmForm::ragged_rows;
      product.groups = {1, dim(grouped_rows).cut_by, 1};
      if (a_leading) refuse_rank(a);
      if (b_leading != 1 || !(b_shape[0] == product.groups))
        refuse(b.where, fmt::format("a weight {} without the group dimension {} in front", graph_.shape_text(b.shape),
                                    dim(dim(grouped_rows).cut_by).name));
    } else if (a_leading == 1 || b_leading == 1) {
      product.form = GemmForm::batched;
      if (a_leading != 1 || b_leading != 1 || !(a_shape[0] == b_shape[0])) refuse_rank(a_leading == 1 ? a : b);
      if (!failed_) product.groups = a_shape[0];
    }
  }

  void refuse_pointer_rows(const Product& product) {
    const ir::Tensor& a = tensor(product.a);
    if (a.pointer_axes) refuse(a.where, "one buffer for each group as the operand that gives the rows");
  }

  // Two gemms run in one loop if they have the rows operand in common, or if nothing but their sum is used.
  void pair_up(std::vector<Product>& products) {
    Product &one = products[0], &two = products[1];
    const Span& where = node(gemm_.nodes[1]).where;
    auto same_operand = [](const GemmOperand& x, const GemmOperand& y) {
      return x.input == y.input && x.half == y.half;
    };
    const bool same_dims = one.form == two.form && one.depth == two.depth && one.groups == two.groups;
    if (only_sum_is_used()) {
      if (!(one.depth == two.depth))
        return refuse(where, fmt::format("the sum of two gemms that contract different names, {} and {},",
                                         graph_.extent_text(one.depth), graph_.extent_text(two.depth)));
      if (!(same_dims && one.rows == two.rows && one.columns == two.columns && one.a.major == two.a.major &&
            one.b.major == two.b.major))
        return refuse(where, "the sum of two gemms whose operands lie differently");
      gemm_.segments = 2;
      return;
    }
    // Which operand gives the rows is free: take the shared one.
    const bool shared = same_operand(one.a, two.a) || same_operand(one.b, two.b);
    if (shared && !same_operand(one.a, two.a)) {
      if (is_launch(one.rows)) return refuse(where, "a second gemm that shares its weight with the first");
      for (Product* product : {&one, &two}) {
        std::swap(product->a, product->b);
        std::swap(product->rows, product->columns);
      }
      refuse_pointer_rows(one);
    }
    if (!shared || !same_dims || !(one.columns == two.columns) || one.b.major != two.b.major)
      return refuse(where, "a second gemm that shares no operand with the first");
    if (tensor(one.b).pointer_axes != tensor(two.b).pointer_axes)
      return refuse(where, "two gemms of which one has a buffer for each group");
    gemm_.weights = gemm_.parts = 2;
  }

  bool only_sum_is_used() const {
    ir::NodeId sum = -1;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& user = graph_.nodes[i];
      const bool uses = std::any_of(user.args.begin(), user.args.end(), [&](ir::NodeId id) { return is_product(id); });
      if (!uses) continue;
      if (user.op != Op::add || !is_product(user.args[0]) || !is_product(user.args[1]) ||
          user.args[0] == user.args[1] || sum >= 0)
        return false;
      sum = static_cast<ir::NodeId>(i);
    }
    return sum >= 0 && std::none_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const ir::Output& output) {
             return !output.left_out && is_product(output.value);
           });
  }
  bool is_product(ir::NodeId id) const {
    return std::find(gemm_.nodes.begin(), gemm_.nodes.end(), id) != gemm_.nodes.end();
  }

  void take(const std::vector<Product>& products) {
    const Product& one = products[0];
    gemm_.form = one.form;
    gemm_.rows = one.rows;
    gemm_.columns = one.columns;
    gemm_.depth = one.depth;
    gemm_.groups = one.groups;
    gemm_.operand = tensor(one.a).type.storage();
    gemm_.a.push_back(one.a);
    gemm_.b.push_back(one.b);
    if (gemm_.segments == 2) gemm_.a.push_back(products[1].a);
    if (products.size() == 2) gemm_.b.push_back(products[1].b);
    for (GemmOperand& a : gemm_.a) a.gives_rows = true;
  }

  // A split takes the columns of the gemm apart, or those of something twice as wide as they are; a join makes the
  // latter. All of a kernel deal out alike.
  void find_doubled_names() {
    std::optional<int64_t> piece;
    for (const ir::Node& move : graph_.nodes) {
      if (move.op != Op::split && move.op != Op::join) continue;
      if (move.op == Op::split && is_operand_only(move)) continue;
      const ir::Shape& wide = move.op == Op::split ? node(move.args[0]).shape : move.shape;
      // What a join puts together may lie over fewer names: a gradient's half may be a number.
      const auto narrow_has = [&](const Extent& e) {
        return move.op == Op::split ? graph_.has_name(move.shape, e) : graph_.has_name(wide, ir::twice(e));
      };
      if (graph_.has_name(wide, gemm_.columns) && !narrow_has(gemm_.columns)) {
        if (gemm_.weights == 2 || gemm_.segments == 2) return refuse(move.where, "a split of the results of two gemms");
        gemm_.parts = 2;
      } else if (gemm_.parts == 2 && gemm_.weights == 1) {
        // The other splits of a kernel whose gemm is split have the same halves.
        if (!narrow_has(ir::half(gemm_.columns)))
          return refuse(move.where, "a split of something else than the columns of gemm");
      } else if (!narrow_has(gemm_.columns)) {
        return refuse(move.where, "a split of something else than the columns of gemm");
      }
      if (piece && *piece != move.piece) return refuse(move.where, "two splits with different pieces in one kernel");
      piece = move.piece;
    }
    gemm_.piece = piece.value_or(0);
    if (gemm_.split_weight()) gemm_.columns = ir::half(gemm_.columns);
  }

  bool is_operand_only(const ir::Node& split) const {
    const ir::NodeId id = static_cast<ir::NodeId>(&split - graph_.nodes.data());
    for (const ir::Node& user : graph_.nodes)
      if (user.op != Op::gemm && std::find(user.args.begin(), user.args.end(), id) != user.args.end()) return false;
    return std::none_of(graph_.outputs.begin(), graph_.outputs.end(),
                        [&](const ir::Output& output) { return !output.left_out && output.value == id; });
  }

  // A number for an extent that must be known, or 0 and a mistake.
  int64_t number_of(const Extent& extent, const Span& where) {
    if (const std::optional<int64_t> value = graph_.fixed_value(extent)) return *value;
    mistake(where, fmt::format("{} has no value", graph_.extent_text(extent)),
            fmt::format("give the dimension a default, or bind it: --dims {}=…",
                        extent.dim >= 0 ? dim(extent.dim).name : "NAME"));
    return 0;
  }

  void check_sizes() {
    const Span& weight = tensor(gemm_.b[0]).where;
    gemm_.part_columns = number_of(gemm_.columns, weight);
    const int64_t depth = is_launch(gemm_.depth) ? 8 : number_of(gemm_.depth, weight);
    const int64_t rows = gemm_.a[0].major == Major::mn && !is_launch(gemm_.rows) ? number_of(gemm_.rows, weight) : 8;
    if (failed_) return;
    // Rows of 16-bit operands must be a multiple of 16 bytes apart.
    const bool depth_contiguous = gemm_.a[0].major == Major::k || gemm_.b[0].major == Major::k;
    const char* apart = "rows of 16-bit operands must be a multiple of 16 bytes apart";
    if (depth_contiguous && depth % 8 != 0)
      refuse(weight,
             fmt::format("a contracted dimension {} = {}, which is no multiple of 8,", graph_.extent_text(gemm_.depth),
                         depth),
             apart);
    if (rows % 8 != 0)
      refuse(tensor(gemm_.a[0]).where,
             fmt::format("{} = {} rows, no multiple of 8, of an operand with contiguous rows,",
                         graph_.extent_text(gemm_.rows), rows),
             apart);
    if (gemm_.part_columns % 8 != 0)
      refuse(weight,
             fmt::format("{} = {} columns, no multiple of 8,", graph_.extent_text(gemm_.columns), gemm_.part_columns),
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
