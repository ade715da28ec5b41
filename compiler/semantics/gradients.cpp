// grad(f, seed, x, ...): what it may be taken of, and the shape of each result (V5).
#include <algorithm>
#include <fmt/format.h>

#include "compiler/semantics/operators.h"
#include "compiler/semantics/shapes.h"
#include "compiler/semantics/values.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;
using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;

// Walks the values between x and f. Arguments come before their users, so one pass over the ids is enough.
class GradientPath {
 public:
  GradientPath(const KernelContext& context, NodeId f, NodeId x)
      : context_(context), f_(f), x_(x), on_path_(context.graph.nodes.size(), false) {
    std::vector<bool> from_x(on_path_.size(), false), to_f(on_path_.size(), false);
    from_x[x] = true;
    for (NodeId id = x + 1; id <= f; ++id)
      for (const NodeId arg : context.node(id).args) from_x[id] = from_x[id] || from_x[arg];
    to_f[f] = true;
    for (NodeId id = f; id > x; --id)
      for (const NodeId arg : context.node(id).args) to_f[arg] = to_f[arg] || to_f[id];
    for (NodeId id = 0; id <= f; ++id) on_path_[id] = from_x[id] && to_f[id];
  }

  bool exists() const { return on_path_[x_] && on_path_[f_]; }

  // The first value on the way that a gradient does not pass; unknown_value: none.
  NodeId obstacle() const {
    for (NodeId id = x_ + 1; id <= f_; ++id) {
      const Op op = context_.node(id).op;
      const bool moves = op == Op::gemm || op == Op::gather || op == Op::hadamard;
      if (on_path_[id] && moves) return id;
    }
    return unknown_value;
  }

  // About how many nodes the gradient becomes: one for the derivative of each value on the way, and one that multiplies
  // it. Saturates beyond what a kernel may hold.
  int64_t size() const {
    int64_t nodes = 0;
    for (NodeId id = x_; id <= f_ && nodes <= max_nodes; ++id) {
      if (!on_path_[id]) continue;
      const auto inner = context_.gradient_sizes.find(id);
      nodes += 2 * (inner == context_.gradient_sizes.end() ? 1 : inner->second);
    }
    return nodes;
  }

  // Seed and f meet at f; on the way to x a half becomes the whole it is part of.
  Shape shape(const Shape& at_f) const {
    std::vector<Shape> gradient(on_path_.size());
    gradient[f_] = at_f;
    for (NodeId id = f_; id > x_; --id) {
      if (!on_path_[id]) continue;
      const Node& node = context_.node(id);
      for (size_t i = 0; i < node.args.size(); ++i) {
        const NodeId arg = node.args[i];
        if (!on_path_[arg]) continue;
        Shape here = gradient[id];
        if (node.op == Op::grad) {
          // Every way leads through what the inner f was computed from, never through its x alone.
          if (i > 1) continue;
          here = with_parts_of(here, context_.node(arg).shape);
        }
        if (node.op == Op::split || node.op == Op::join)
          here = replaced(context_.graph, here, node.shape.back(), context_.node(arg).shape.back());
        gradient[arg] = merge(context_.graph, gradient[arg], here);
      }
    }
    return merge(context_.graph, context_.node(x_).shape, gradient[x_]);
  }

 private:
  // A gradient may lie over the whole of what its f is over a half of.
  Shape with_parts_of(Shape shape, const Shape& arg) const {
    for (Extent& extent : shape)
      for (const Extent& part : {half(extent), twice(extent)})
        if (!context_.graph.has_name(arg, extent) && context_.graph.has_name(arg, part)) {
          extent = part;
          break;
        }
    return shape;
  }

  const KernelContext& context_;
  NodeId f_, x_;
  std::vector<bool> on_path_;
};

}  // namespace

std::vector<NodeId> resolve_gradients(KernelContext& context, const Expr& call, const Place& place) {
  std::vector<NodeId> args;
  for (const Expr& arg : call.args) args.push_back(resolve_value(context, arg, place));
  std::vector<NodeId> results(args.size() - 2, unknown_value);
  if (args[0] == unknown_value || args[1] == unknown_value) return results;
  const auto error = [&](const Expr& expr, std::string message, std::string hint = "") {
    context.report.error(place.of(expr), std::move(message), std::move(hint));
  };
  // Checked one by one, so that a wrong x leaves the other gradients known; a grad node needs all of them.
  bool all_known = true;
  std::vector<Shape> shapes(results.size());
  std::vector<int64_t> sizes(results.size());
  const Shape at_f = merge(context.graph, context.node(args[0]).shape, context.node(args[1]).shape);
  for (size_t i = 0; i < results.size(); ++i) {
    const NodeId x = args[i + 2];
    const Expr& written = call.args[i + 2];
    if (x == unknown_value) {
      all_known = false;
      continue;
    }
    const std::string text(written.where.text());
    const GradientPath path(context, args[0], std::min(x, args[0]));
    if (context.node(x).op == Op::number) {
      error(written, fmt::format("'{}' is a number, and only a value has a gradient", text));
      all_known = false;
    } else if (x > args[0] || !path.exists()) {
      error(written, fmt::format("'{}' does not depend on '{}'", call.args[0].where.text(), text),
            "x is a value that f was computed from, by the name it had there");
      all_known = false;
    } else if (const NodeId obstacle = path.obstacle(); obstacle != unknown_value) {
      error(written,
            fmt::format("the gradient by '{}' would have to pass '{}', which is not pointwise", text,
                        ir::op_info(context.node(obstacle).op).name),
            "a gradient passes pointwise functions, split and join");
      all_known = false;
    } else {
      shapes[i] = path.shape(at_f);
      sizes[i] = path.size();
    }
  }
  if (!all_known) return results;
  const size_t nodes_before = context.graph.nodes.size();
  for (size_t i = 0; i < results.size(); ++i) {
    Node node;
    node.op = Op::grad;
    node.args = args;
    node.index = static_cast<int>(i);
    node.shape = shapes[i];
    node.where = place.of(call);
    results[i] = context.add(std::move(node));
    context.gradient_sizes[results[i]] = sizes[i];
  }
  // One sweep gives all results of a call, and calls with equal arguments share it.
  if (context.graph.nodes.size() > nodes_before)
    context.gradient_nodes += *std::max_element(sizes.begin(), sizes.end());
  if (context.gradient_nodes > max_nodes && !context.gave_up) {
    context.report.error(place.of(call), fmt::format("the gradients grow beyond {} operations", max_nodes),
                         "a gradient of a gradient is about three times as large as the one it is taken of");
    context.gave_up = true;
  }
  return results;
}

}  // namespace epifuse::semantics
