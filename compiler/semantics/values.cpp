// Expressions and inlined functions. Arguments are resolved once, at the call, and shared by the body.
#include "compiler/semantics/values.h"

#include <cmath>
#include <fmt/format.h>

#include "compiler/semantics/builtins.h"
#include "compiler/semantics/operators.h"
#include "compiler/semantics/shapes.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;

class ValueResolver {
 public:
  ValueResolver(KernelContext& context, const Place& place) : context_(context), place_(place) {}

  NodeId value(const Expr& expr) {
    if (context_.gave_up) return unknown_value;
    if (place_.nesting >= max_inlined_nesting) return give_up(expr, "the functions are nested too deep");
    switch (expr.kind) {
      case Expr::Kind::number: return number(expr.number, expr);
      case Expr::Kind::name: return name(expr);
      case Expr::Kind::negate: return map_node(context_, Op::neg, {inner(expr.args[0])}, place_.of(expr));
      case Expr::Kind::chain: return chain(expr);
      case Expr::Kind::call: return call(expr);
      case Expr::Kind::index: return resolve_gather(context_, expr);
      case Expr::Kind::member: return member(expr);
    }
    return unknown_value;
  }

 private:
  NodeId error(const Expr& expr, std::string message, std::string hint = "") {
    context_.report.error(place_.of(expr), std::move(message), std::move(hint));
    return unknown_value;
  }

  NodeId give_up(const Expr& expr, std::string message) {
    context_.gave_up = true;
    return error(expr, std::move(message));
  }

  // A part of this expression.
  NodeId inner(const Expr& expr) {
    Place place = place_;
    ++place.nesting;
    return ValueResolver(context_, place).value(expr);
  }

  NodeId number(double value, const Expr& expr) {
    Node node;
    node.op = Op::number;
    node.number = value;
    node.where = place_.of(expr);
    return context_.add(std::move(node));
  }

  NodeId name(const Expr& expr) {
    if (place_.arguments != nullptr) {
      const auto argument = place_.arguments->find(expr.name.text);
      if (argument != place_.arguments->end()) return argument->second;
      const auto constant = context_.definitions.constants.find(expr.name.text);
      const bool known = constant != context_.definitions.constants.end() && constant->second.value;
      return known ? number(*constant->second.value, expr) : unknown_value;
    }
    const Symbol* symbol = context_.find(expr.name.text);
    if (symbol == nullptr || symbol->meaning == Meaning::dimension) {
      const std::optional<std::optional<double>> constant = context_.constants()(expr.name.text);
      if (constant) return *constant ? number(**constant, expr) : unknown_value;
      context_.report_unknown_name(expr.name);
      return unknown_value;
    }
    switch (symbol->meaning) {
      case Meaning::constant: return number(symbol->number, expr);
      case Meaning::value: return symbol->id;
      case Meaning::input: return input(*symbol, expr);
      case Meaning::param: {
        Node node;
        node.op = Op::param;
        node.index = symbol->id;
        node.where = context_.graph.params[symbol->id].where;
        return context_.add(std::move(node));
      }
      case Meaning::dimension:
      case Meaning::unknown: break;
    }
    return unknown_value;
  }

  NodeId input(const Symbol& symbol, const Expr& expr) {
    const ir::Tensor& tensor = context_.graph.inputs[symbol.id].tensor;
    const Storage storage = tensor.type.storage();
    if (storage == Storage::i32 || storage == Storage::i64)
      return error(expr, fmt::format("'{}' holds integers: an index or a seed, not a value", tensor.name),
                   storage == Storage::i32 ? fmt::format("rows are read by index as x[{}]", tensor.name) : "");
    Node node;
    node.op = Op::input;
    node.index = symbol.id;
    node.shape = tensor.shape;
    node.where = tensor.where;
    return context_.add(std::move(node));
  }

  NodeId chain(const Expr& expr) {
    NodeId result = inner(expr.args[0]);
    for (size_t i = 0; i < expr.operators.size(); ++i) {
      const OperatorMeaning meaning = operator_meaning(expr.operators[i]);
      const NodeId right = inner(expr.args[i + 1]);
      Span where = place_.of(expr);
      // a + b of a + b + c ends behind b.
      if (place_.arguments == nullptr) where.length = end_of(expr.args[i + 1]) - where.offset;
      result = map_node(context_, meaning.op, meaning.swapped ? std::vector{right, result} : std::vector{result, right},
                        where);
    }
    return result;
  }

  static size_t end_of(const Expr& expr) { return expr.where.offset + expr.where.length; }

  NodeId call(const Expr& expr) {
    const std::string& name = expr.name.text;
    if (const std::optional<MapFunction> map = map_function(name)) {
      const bool reduces = name == "max" && expr.args.size() == 1;
      if (!has_arguments(expr, map->arity, map->arity, reduces ? "max(a, b); the largest magnitude is amax(v)" : ""))
        return unknown_value;
      return map_node(context_, map->op, arguments(expr), place_.of(expr));
    }
    if (const SpecialFunction* special = special_function(name)) return special_call(expr, *special);
    const auto function = context_.definitions.functions.find(name);
    if (function == context_.definitions.functions.end()) {
      arguments(expr);  // for their own mistakes
      if (!context_.definitions.is_broken(name))
        report_unknown_function(expr.name, context_.definitions, context_.report);
      return unknown_value;
    }
    return inline_call(expr, function->second);
  }

  NodeId special_call(const Expr& expr, const SpecialFunction& special) {
    if (!has_arguments(expr, special.least, special.most, special.signature)) return unknown_value;
    if (special.name == "gemm") return resolve_gemm(context_, expr, deeper());
    if (special.name == "join") return resolve_join(context_, expr, deeper());
    if (special.name == "hadamard") return resolve_hadamard(context_, expr, deeper());
    if (special.name == "cast") return cast(expr);
    if (special.name == "split")
      return error(expr, "split gives two values, here one is needed", "name them first: gate, up = split(h)");
    if (special.name == "grad") {
      if (expr.args.size() == 3) return resolve_gradients(context_, expr, deeper())[0];
      return error(expr, fmt::format("grad gives {} values, here one is needed", expr.args.size() - 2),
                   "name them first: dx, dy = grad(f, seed, x, y)");
    }
    // sum and amax; what they reduce may have mistakes of its own.
    inner(expr.args[0]);
    return error(expr, fmt::format("'{}' stands only directly behind the '=' of an out", special.name),
                 "before the store everything is pointwise");
  }

  Place deeper() const {
    Place place = place_;
    ++place.nesting;
    return place;
  }

  bool has_arguments(const Expr& expr, int least, int most, std::string_view signature) {
    const int count = static_cast<int>(expr.args.size());
    if (count >= least && count <= most) return true;
    arguments(expr);
    const std::string number = least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
    error(expr,
          fmt::format("'{}' takes {} argument{}, not {}", expr.name.text,
                      most == 1000 ? fmt::format("at least {}", least) : number, most == 1 ? "" : "s", count),
          signature.empty() ? "" : fmt::format("it is called as {}", signature));
    return false;
  }

  std::vector<NodeId> arguments(const Expr& expr) {
    std::vector<NodeId> args;
    for (const Expr& arg : expr.args) args.push_back(inner(arg));
    return args;
  }

  NodeId cast(const Expr& expr) {
    const NodeId arg = inner(expr.args[0]);
    const Expr& type = expr.args[1];
    const std::optional<ir::Format> format =
        type.kind == Expr::Kind::name ? ir::parse_format(type.name.text) : std::nullopt;
    if (!format || ir::format_info(*format).scaled || *format == ir::Format::i32 || *format == ir::Format::i64)
      return error(type, format ? fmt::format("cast cannot round to '{}'", type.name.text) : "cast rounds to a type",
                   "the types to round to: f32, bf16, f16, e4m3, e5m2");
    if (arg == unknown_value) return unknown_value;
    Node node;
    node.op = Op::cast;
    node.args = {arg};
    node.shape = context_.node(arg).shape;
    node.to = ir::format_info(*format).element;
    node.where = place_.of(expr);
    return context_.add(std::move(node));
  }

  NodeId inline_call(const Expr& expr, const FunctionDefinition& function) {
    const std::vector<NodeId> args = arguments(expr);
    const size_t arity = function.tree->params.size();
    if (args.size() != arity)
      return error(
          expr,
          fmt::format("'{}' takes {} argument{}, not {}", expr.name.text, arity, arity == 1 ? "" : "s", args.size()),
          fmt::format("it is defined in {}:{}", function.tree->name.where.file->name,
                      function.tree->name.where.begin().line));
    if (!function.sound) return unknown_value;
    if (++context_.inlined_calls > max_inlined_calls)
      return give_up(expr, fmt::format("the kernel makes more than {} calls of functions", max_inlined_calls));
    Arguments arguments;
    for (size_t i = 0; i < arity; ++i) arguments[function.tree->params[i].text] = args[i];
    const Place body{&arguments, place_.of(expr), place_.nesting + 1};
    return ValueResolver(context_, body).value(function.tree->body);
  }

  NodeId member(const Expr& expr) {
    const Symbol* symbol = context_.find(expr.name.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) return unknown_value;
    return error(expr, fmt::format("'{}.{}' is not a value", expr.name.text, expr.second.text),
                 "where the groups of an aligned dimension end may be stored: out ends : i32[E] = P.ends");
  }

  KernelContext& context_;
  const Place place_;
};

}  // namespace

NodeId map_node(KernelContext& context, Op op, const std::vector<NodeId>& args, const Span& where) {
  Node node;
  node.op = op;
  node.args = args;
  node.where = where;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == unknown_value) return unknown_value;
    const ir::Shape& shape = context.node(args[i]).shape;
    node.shape = merge(context.graph, node.shape, shape);
  }
  return context.add(std::move(node));
}

std::optional<int64_t> resolve_integer(KernelContext& context, const Expr& expr, std::string_view what) {
  const std::optional<double> value = evaluate_constant(expr, context.constants(), context.definitions, context.report);
  if (!value) return std::nullopt;
  if (*value != std::floor(*value) || std::fabs(*value) > 9e15) {
    context.report.error(expr.where, fmt::format("{} is a whole number, not {}", what, *value));
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

NodeId resolve_value(KernelContext& context, const Expr& expr, const Place& place) {
  return ValueResolver(context, place).value(expr);
}

std::vector<NodeId> resolve_values(KernelContext& context, const Expr& expr, size_t count) {
  std::vector<NodeId> values;
  std::string_view name = expr.kind == Expr::Kind::call ? std::string_view(expr.name.text) : "";
  const SpecialFunction* special = special_function(name);
  const size_t args = expr.args.size();
  if (name != "split" && name != "grad") {
    resolve_value(context, expr);
    context.report.error(expr.where, fmt::format("this is one value, and {} names are given", count),
                         "only split and grad give several values");
  } else if (static_cast<int>(args) < special->least || static_cast<int>(args) > special->most) {
    resolve_value(context, expr);  // reports it
  } else {
    values = name == "split" ? resolve_split(context, expr) : resolve_gradients(context, expr, {});
    if (values.size() != count) {
      context.report.error(expr.where,
                           fmt::format("{} gives {} values here, and {} names are given", name, values.size(), count),
                           name == "grad" ? "one for each x behind the seed" : "");
      values.clear();
    }
  }
  values.resize(count, unknown_value);
  return values;
}

}  // namespace epifuse::semantics
