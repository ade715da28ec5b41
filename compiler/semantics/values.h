// Internal to the resolver: expressions to nodes of the graph (V1 to V8).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

// The arguments of the function being inlined, by the names of its parameters.
using Arguments = std::map<std::string, ir::NodeId, std::less<>>;

// Where an expression stands: in the kernel, or in a function that the kernel calls at `call`.
struct Place {
  const Arguments* arguments = nullptr;
  Span call;
  int nesting = 0;  // levels of expressions above, through all the bodies

  // A mistake in an inlined body is one of the call: the body may be right for other arguments.
  const Span& of(const ast::Expr& expr) const { return arguments != nullptr ? call : expr.where; }
};

// The value of an expression, or unknown_value once the reason is reported.
ir::NodeId resolve_value(KernelContext& context, const ast::Expr& expr, const Place& place = {});

// `a, b = split(v)` and `dx, dy = grad(f, seed, x, y)`: one value for each name, unknown ones included.
std::vector<ir::NodeId> resolve_values(KernelContext& context, const ast::Expr& expr, size_t count);

// A pointwise operation; an unknown argument makes it unknown.
ir::NodeId map_node(KernelContext& context, ir::Op op, const std::vector<ir::NodeId>& args, const Span& where);

// An argument that must be a whole number known at compile time.
std::optional<int64_t> resolve_integer(KernelContext& context, const ast::Expr& expr, std::string_view what);

// The functions that are no maps, each with its arguments checked in number already.
ir::NodeId resolve_gemm(KernelContext& context, const ast::Expr& call, const Place& place);
ir::NodeId resolve_gather(KernelContext& context, const ast::Expr& index);
ir::NodeId resolve_join(KernelContext& context, const ast::Expr& call, const Place& place);
ir::NodeId resolve_hadamard(KernelContext& context, const ast::Expr& call, const Place& place);
std::vector<ir::NodeId> resolve_split(KernelContext& context, const ast::Expr& call);
std::vector<ir::NodeId> resolve_gradients(KernelContext& context, const ast::Expr& call, const Place& place);

}  // namespace epifuse::semantics
