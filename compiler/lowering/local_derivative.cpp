#include "compiler/lowering/local_derivative.h"

#include <numbers>

namespace epifuse::lowering {

using ir::NodeId;
using ir::Op;

namespace {

Term number(double value) {
  Term term;
  term.coefficient = value;
  return term;
}

Term times(NodeId value, double coefficient = 1) {
  Term term;
  term.coefficient = coefficient;
  term.steps = {{value}};
  return term;
}

// A number, or the negation of one: "-0.5" is two nodes until it is folded.
std::optional<double> constant(const NodeBuilder& nodes, NodeId id) {
  const ir::Node& node = nodes.node(id);
  if (node.op == Op::number) return static_cast<float>(node.number);
  if (node.op != Op::neg || nodes.node(node.args[0]).op != Op::number) return std::nullopt;
  return -static_cast<float>(nodes.node(node.args[0]).number);
}

// 1 / value; by a number it is the number that multiplies.
Term over(const NodeBuilder& nodes, NodeId value, double coefficient = 1) {
  if (const std::optional<double> divisor = constant(nodes, value)) return number(coefficient / *divisor);
  Term term;
  term.coefficient = coefficient;
  term.steps = {{value, true}};
  return term;
}

Term where(NodeId condition, bool taken) {
  Term term;
  term.masks = {{condition, taken}};
  return term;
}

// Which of two arguments min or max chose. `before(a, b)` is the strict order that makes it choose a.
Term choice(NodeBuilder& nodes, Op op, NodeId a, NodeId b, size_t index, bool both) {
  const bool smaller = op == Op::min;
  // The second is chosen where it is strictly before the first; else, and on NaN, the first.
  if (index == 0 || both)
    return where(nodes.map(Op::less, smaller ? std::vector{b, a} : std::vector{a, b}), index == 1);
  // Alone, it also has the gradient on NaN.
  return where(nodes.map(Op::less_equal, smaller ? std::vector{a, b} : std::vector{b, a}), false);
}

// clamp(x, low, high) = min(max(x, low), high).
Term clamp_choice(NodeBuilder& nodes, NodeId x, NodeId low, NodeId high, size_t index) {
  const auto less = [&](NodeId a, NodeId b) { return nodes.map(Op::less, {a, b}); };
  Term term;
  switch (index) {
    case 0: term.masks = {{less(x, low), false}, {less(high, x), false}}; break;
    case 1: term.masks = {{less(x, low), true}, {less(high, low), false}}; break;
    default: term.masks = {{less(high, nodes.map(Op::max, {x, low})), true}}; break;
  }
  return term;
}

}  // namespace

std::optional<Term> local_derivative(NodeBuilder& nodes, NodeId id, size_t index, bool both) {
  // A copy: adding nodes moves them.
  const Op op = nodes.node(id).op;
  const std::vector<NodeId> args = nodes.node(id).args;
  const auto one_minus = [&](NodeId value) { return nodes.map(Op::sub, {nodes.number(1), value}); };
  switch (op) {
    case Op::cast:
    case Op::add: return number(1);
    case Op::sub: return number(index == 0 ? 1 : -1);
    case Op::neg: return number(-1);
    case Op::mul: {
      const NodeId other = args[1 - index];
      const std::optional<double> factor = constant(nodes, other);
      return factor ? number(*factor) : times(other);
    }
    case Op::div: {
      if (index == 0) return over(nodes, args[1]);
      Term term = over(nodes, args[1], -1);
      term.steps.push_back({id});
      return term;
    }
    case Op::select:
      if (index == 0) return std::nullopt;
      return where(args[0], index == 1);
    case Op::min:
    case Op::max: return choice(nodes, op, args[0], args[1], index, both);
    case Op::clamp: return clamp_choice(nodes, args[0], args[1], args[2], index);
    case Op::abs: {
      const NodeId zero = nodes.number(0);
      Term term =
          times(nodes.map(Op::select, {nodes.map(Op::less, {args[0], zero}), nodes.number(-1), nodes.number(1)}));
      term.masks = {{nodes.map(Op::equal, {args[0], zero}), false}};
      return term;
    }
    case Op::exp: return times(id);
    case Op::log: return over(nodes, args[0]);
    case Op::tanh: return times(one_minus(nodes.map(Op::mul, {id, id})));
    case Op::sigmoid: {
      Term term = times(id);
      term.steps.push_back({one_minus(id)});
      return term;
    }
    case Op::erf:
    case Op::erfc: {
      const NodeId square = nodes.map(Op::mul, {args[0], args[0]});
      const double slope = 2 * std::numbers::inv_sqrtpi;
      return times(nodes.map(Op::exp, {nodes.map(Op::neg, {square})}), op == Op::erf ? slope : -slope);
    }
    case Op::sqrt: return over(nodes, id, 0.5);
    case Op::rsqrt: {
      Term term = times(id, -0.5);
      term.steps.insert(term.steps.end(), 2, {id});
      return term;
    }
    default: return std::nullopt;  // comparisons
  }
}

}  // namespace epifuse::lowering
