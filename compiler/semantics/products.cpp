// Functions that work on named dimensions: gemm, x[i], split, join, hadamard (V2, V4, V7, V8).
#include <algorithm>
#include <fmt/format.h>

#include "compiler/semantics/dimensions.h"
#include "compiler/semantics/shapes.h"
#include "compiler/semantics/values.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;
using ir::DimId;
using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;

class GemmResolver {
 public:
  GemmResolver(KernelContext& context, const Expr& call, const Place& place)
      : context_(context), graph_(context.graph), call_(call), place_(place) {}

  NodeId run() {
    Node node;
    node.op = Op::gemm;
    node.where = place_.of(call_);
    for (size_t i = 0; i < 2; ++i) node.args.push_back(resolve_value(context_, call_.args[i], place_));
    if (call_.args.size() == 3) {
      const std::optional<int64_t> promote = resolve_integer(context_, call_.args[2], "gemm's n");
      if (!promote) return unknown_value;
      if (*promote < 0) return error("gemm's n is 0 (never) or more");
      node.promote = *promote;
    }
    bool sound = true;
    for (size_t i = 0; i < 2; ++i)
      sound = node.args[i] != unknown_value && is_operand(node.args[i], call_.args[i]) && sound;
    if (!sound) return unknown_value;
    const Shape& a = context_.node(node.args[0]).shape;
    const Shape& b = context_.node(node.args[1]).shape;
    const std::optional<Extent> along = contracted(a, b);
    if (!along) return unknown_value;
    node.along = *along;
    if (!columns_are_fixed(a, b)) return unknown_value;
    node.shape = result(a, b, *along);
    return context_.add(std::move(node));
  }

 private:
  NodeId error(std::string message, std::string hint = "") {
    context_.report.error(place_.of(call_), std::move(message), std::move(hint));
    return unknown_value;
  }

  bool is_operand(NodeId id, const Expr& expr) {
    const Node* node = &context_.node(id);
    if (node->op == Op::split || node->op == Op::gather) node = &context_.node(node->args[0]);
    if (node->op != Op::input) {
      context_.report.error(place_.of(expr), "an operand of gemm is an input, a half of one, or one with an index",
                            "what is computed before a gemm is stored by a kernel of its own");
      return false;
    }
    const ir::Input& input = graph_.inputs[node->index];
    if (!input.default_value) return true;
    context_.report.error(
        place_.of(expr),
        fmt::format("the operand '{}' has a default, and a gemm cannot do without it", input.tensor.name),
        "leave out the '= number' where it is declared");
    return false;
  }

  std::optional<Extent> contracted(const Shape& a, const Shape& b) {
    Shape shared;
    for (const Extent& extent : a)
      if (graph_.has_name(b, extent)) shared.push_back(graph_.base_name(extent));
    const std::string shapes = fmt::format("{} and {}", graph_.shape_text(a), graph_.shape_text(b));
    if (shared.empty()) {
      error(fmt::format("gemm contracts the name that both operands have, {} share none", shapes));
    } else if (shared.size() == 1) {
      return shared[0];
    } else if (shared.size() > 2) {
      error(fmt::format("{} share the names {}: gemm contracts one, and a second is the batch", shapes,
                        graph_.shape_text(shared)));
    } else if (const bool leads = graph_.same_name(a[0], b[0]); !leads) {
      error(fmt::format("{} share two names, and neither leads both", shapes),
            "a name that leads both is the batch, the other is contracted");
    } else if (grouped_dim(graph_, a[0]) >= 0) {
      error(fmt::format("{} share two names, and '{}', which leads both, is cut into groups and cannot be the batch",
                        shapes, graph_.extent_text(a[0])));
    } else {
      return graph_.same_name(shared[0], a[0]) ? shared[1] : shared[0];
    }
    return std::nullopt;
  }

  // N2: a dyn may be rows, batch or the contraction; so may a group. What is left are the columns.
  bool columns_are_fixed(const Shape& a, const Shape& b) {
    const auto launch_sized = [&](const Shape& of, const Shape& other) -> const Extent* {
      for (const Extent& extent : of)
        if (!graph_.has_name(other, extent) && !is_fixed(graph_, extent)) return &extent;
      return nullptr;
    };
    const Extent *rows = launch_sized(a, b), *columns = launch_sized(b, a);
    if (rows == nullptr || columns == nullptr) return true;
    error(fmt::format("the rows '{}' and the columns '{}' both get their size at launch", graph_.extent_text(*rows),
                      graph_.extent_text(*columns)),
          "one of them is a dim");
    return false;
  }

  Shape result(const Shape& a, const Shape& b, const Extent& along) const {
    const DimId grouped = grouped_dim(graph_, along);
    // Contracting the grouped dimension leaves the groups in its place.
    Shape left = without(graph_, a, along), right = without(graph_, b, along);
    if (grouped >= 0) {
      left.insert(left.begin(), Extent{1, graph_.dims[grouped].cut_by, 1});
      return graph_.union_of(left, right);
    }
    // [S, K] with [N, K]: rows, then columns; the group count of the weights gives way.
    return graph_.union_of(left, right);
  }

  KernelContext& context_;
  const ir::Graph& graph_;
  const Expr& call_;
  const Place& place_;
};

// Whether halving or dealing out the last extent of `shape` in pieces is possible.
bool can_split(KernelContext& context, const Shape& shape, int64_t piece, const Span& where) {
  const ir::Graph& graph = context.graph;
  if (shape.empty()) {
    context.report.error(where, "a scalar has no dimension to split");
    return false;
  }
  const Extent& last = shape.back();
  if (!is_fixed(graph, last)) {
    context.report.error(where,
                         fmt::format("split works on the last dimension of {}, and '{}' is not fixed at compile time",
                                     graph.shape_text(shape), graph.extent_text(last)));
    return false;
  }
  const int64_t unit = 2 * std::max<int64_t>(piece, 1);
  if (const std::optional<int64_t> size = graph.fixed_value(last); size && *size % unit != 0) {
    context.report.error(where, piece == 0 ? fmt::format("'{}' = {} has no halves", graph.extent_text(last), *size)
                                           : fmt::format("'{}' = {} cannot be dealt out in pairs of {} elements",
                                                         graph.extent_text(last), *size, piece));
    return false;
  }
  if (last.dim < 0) return true;
  if (const Extent part = half(last); graph.has_name(shape, part)) {
    context.report.error(where, fmt::format("half of '{}' is '{}', which {} has already", graph.extent_text(last),
                                            graph.extent_text(part), graph.shape_text(shape)));
    return false;
  }
  return true;
}

std::optional<int64_t> resolve_piece(KernelContext& context, const Expr& call, size_t index) {
  if (call.args.size() <= index) return 0;
  const std::optional<int64_t> piece = resolve_integer(context, call.args[index], "the length of a piece");
  if (!piece || *piece == 1 || (*piece > 0 && *piece % 8 == 0)) return piece;
  context.report.error(call.args[index].where, fmt::format("a piece has 1 element or a multiple of 8, not {}", *piece));
  return std::nullopt;
}

// The size that an argument of hadamard names: D, 2*D, D/2.
std::optional<ast::Size> size_of(const Expr& expr) {
  ast::Size size;
  size.where = expr.where;
  if (expr.kind == Expr::Kind::name) {
    size.name = expr.name;
    return size;
  }
  if (expr.kind != Expr::Kind::chain || expr.operators.size() > 2) return std::nullopt;
  size_t at = 0;
  if (expr.args[0].kind == Expr::Kind::number && expr.operators[0] == ast::Operator::mul) {
    size.times = static_cast<int64_t>(expr.args[0].number);
    at = 1;
  }
  if (expr.args[at].kind != Expr::Kind::name || size.times < 1) return std::nullopt;
  size.name = expr.args[at].name;
  if (at == expr.operators.size()) return size;
  if (at + 1 != expr.operators.size() || expr.operators[at] != ast::Operator::div ||
      expr.args[at + 1].kind != Expr::Kind::number || expr.args[at + 1].number < 1)
    return std::nullopt;
  size.over = static_cast<int64_t>(expr.args[at + 1].number);
  return size;
}

}  // namespace

NodeId resolve_gemm(KernelContext& context, const Expr& call, const Place& place) {
  return GemmResolver(context, call, place).run();
}

NodeId resolve_gather(KernelContext& context, const Expr& expr) {
  const Symbol* rows = context.find(expr.name.text);
  const Symbol* index = context.find(expr.second.text);
  bool sound = true;
  for (const auto& [symbol, name] : {std::pair(rows, &expr.name), std::pair(index, &expr.second)}) {
    if (symbol != nullptr && (symbol->meaning == Meaning::input || symbol->meaning == Meaning::unknown)) {
      sound = sound && symbol->meaning == Meaning::input;
      continue;
    }
    sound = false;
    if (symbol == nullptr)
      context.report_unknown_name(*name);
    else
      context.report.error(name->where, fmt::format("'{}' is not an input", name->text), "x[i] reads rows of an input");
  }
  if (!sound) return unknown_value;
  const ir::Input& source = context.graph.inputs[rows->id];
  const ir::Input& places = context.graph.inputs[index->id];
  const Storage storage = places.tensor.type.storage();
  const auto error = [&](const Span& where, std::string message, std::string hint = "") {
    context.report.error(where, std::move(message), std::move(hint));
    return unknown_value;
  };
  if (places.tensor.type.scaled() || (storage != Storage::i32 && storage != Storage::i64))
    return error(expr.second.where, fmt::format("the index '{}' holds no integers", places.tensor.name), "i32 or i64");
  const Storage elements = source.tensor.type.storage();
  if (elements == Storage::i32 || elements == Storage::i64)
    return error(expr.name.where, fmt::format("'{}' holds integers, not values", source.tensor.name));
  if (source.default_value)
    return error(expr.name.where,
                 fmt::format("'{}' has a default, and what may be left out has no rows", source.tensor.name));
  const Shape& from = source.tensor.shape;
  if (from.empty()) return error(expr.name.where, fmt::format("'{}' is a scalar and has no rows", source.tensor.name));
  const Shape rest(from.begin() + 1, from.end());
  for (const Extent& extent : places.tensor.shape)
    if (context.graph.has_name(rest, extent))
      return error(expr.where, fmt::format("the rows of '{}' and the index '{}' both have the name '{}'",
                                           source.tensor.name, places.tensor.name, context.graph.extent_text(extent)));
  const auto input_node = [&](const Symbol& symbol) {
    Node node;
    node.op = Op::input;
    node.index = symbol.id;
    node.shape = context.graph.inputs[symbol.id].tensor.shape;
    node.where = context.graph.inputs[symbol.id].tensor.where;
    return context.add(std::move(node));
  };
  Node node;
  node.op = Op::gather;
  node.args.push_back(input_node(*rows));
  node.args.push_back(input_node(*index));
  node.along = context.graph.base_name(from[0]);
  node.shape = context.graph.union_of(places.tensor.shape, rest);
  node.where = expr.where;
  return context.add(std::move(node));
}

std::vector<NodeId> resolve_split(KernelContext& context, const Expr& call) {
  std::vector<NodeId> halves(2, unknown_value);
  const NodeId value = resolve_value(context, call.args[0]);
  const std::optional<int64_t> piece = resolve_piece(context, call, 1);
  if (value == unknown_value || !piece) return halves;
  const Shape shape = context.node(value).shape;
  if (!can_split(context, shape, *piece, call.where)) return halves;
  for (int part = 0; part < 2; ++part) {
    Node node;
    node.op = Op::split;
    node.args = {value};
    node.shape = shape;
    const Extent& last = shape.back();
    node.shape.back() = last.dim < 0 ? Extent{last.times / 2, -1, 1} : half(last);
    node.index = part;
    node.piece = *piece;
    node.where = call.where;
    halves[part] = context.add(std::move(node));
  }
  return halves;
}

NodeId resolve_join(KernelContext& context, const Expr& call, const Place& place) {
  Node node;
  node.op = Op::join;
  for (size_t i = 0; i < 2; ++i) node.args.push_back(resolve_value(context, call.args[i], place));
  const std::optional<int64_t> piece = resolve_piece(context, call, 2);
  if (node.args[0] == unknown_value || node.args[1] == unknown_value || !piece) return unknown_value;
  const ir::Graph& graph = context.graph;
  const Shape& a = context.node(node.args[0]).shape;
  const Shape& b = context.node(node.args[1]).shape;
  const Span& where = place.of(call);
  const auto error = [&](std::string message, std::string hint = "") {
    context.report.error(where, std::move(message), std::move(hint));
    return unknown_value;
  };
  if (!graph.same_names(a, b))
    return error(fmt::format("join takes two values over the same dimensions, not {} and {}", graph.shape_text(a),
                             graph.shape_text(b)));
  if (a.empty() || !is_fixed(graph, a.back()) || !graph.same_name(a.back(), b.back()))
    return error(fmt::format("join works on the last dimension, which is no dim common to {} and {}",
                             graph.shape_text(a), graph.shape_text(b)));
  const Extent whole = twice(a.back());
  if (graph.has_name(a, whole))
    return error(fmt::format("twice '{}' is '{}', which {} has already", graph.extent_text(a.back()),
                             graph.extent_text(whole), graph.shape_text(a)));
  if (const std::optional<int64_t> size = graph.fixed_value(a.back()); size && *piece > 0 && *size % *piece != 0)
    return error(fmt::format("'{}' = {} is no multiple of {}", graph.extent_text(a.back()), *size, *piece));
  node.shape = a;
  node.shape.back() = whole;
  node.piece = *piece;
  node.where = where;
  return context.add(std::move(node));
}

NodeId resolve_hadamard(KernelContext& context, const Expr& call, const Place& place) {
  const NodeId value = resolve_value(context, call.args[0], place);
  const std::optional<ast::Size> size = size_of(call.args[1]);
  if (!size) {
    context.report.error(call.args[1].where, "hadamard's second argument is a dimension", "hadamard(v, I)");
    return unknown_value;
  }
  const std::optional<Extent> along = resolve_size(context, *size);
  int64_t signs = 0;
  if (call.args.size() == 3) {
    const std::optional<int64_t> given = resolve_integer(context, call.args[2], "the signs");
    if (!given) return unknown_value;
    if (*given < 0 || *given > 0xFFFF) {
      context.report.error(call.args[2].where, fmt::format("the signs are a number of 16 bits, not {}", *given));
      return unknown_value;
    }
    signs = *given;
  }
  if (value == unknown_value || !along) return unknown_value;
  const Shape& shape = context.node(value).shape;
  if (!context.graph.has_name(shape, *along)) {
    context.report.error(call.args[1].where,
                         fmt::format("the value {} has no dimension '{}'", context.graph.shape_text(shape),
                                     context.graph.extent_text(*along)));
    return unknown_value;
  }
  Node node;
  node.op = Op::hadamard;
  node.args = {value};
  node.shape = shape;
  node.along = context.graph.base_name(*along);
  node.signs = static_cast<uint32_t>(signs);
  node.where = place.of(call);
  return context.add(std::move(node));
}

}  // namespace epifuse::semantics
