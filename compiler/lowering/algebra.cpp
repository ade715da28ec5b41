#include "compiler/lowering/algebra.h"

#include <bit>
#include <cmath>

namespace epifuse::lowering {

using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

std::optional<float> number_of(const NodeBuilder& nodes, NodeId id) {
  const Node& node = nodes.node(id);
  if (node.op != Op::number) return std::nullopt;
  return static_cast<float>(node.number);
}

bool is_number(const NodeBuilder& nodes, NodeId id, float value) {
  const std::optional<float> number = number_of(nodes, id);
  return number && std::bit_cast<uint32_t>(*number) == std::bit_cast<uint32_t>(value);
}

bool equal(const NodeBuilder& nodes, NodeId a, NodeId b) {
  const std::optional<float> number = number_of(nodes, a);
  return a == b || (number && is_number(nodes, b, *number));
}

bool is_power_of_two(float value) {
  int exponent;
  return std::isfinite(value) && std::fabs(std::frexp(value, &exponent)) == 0.5f;
}

// What x has to be multiplied with to be divided by this number; only a power of two has an exact one.
std::optional<float> exact_inverse(float value) {
  const float inverse = 1 / value;
  if (!is_power_of_two(value) || !is_power_of_two(inverse)) return std::nullopt;
  return inverse;
}

// x of -x.
std::optional<NodeId> negated(const NodeBuilder& nodes, NodeId id) {
  const Node& node = nodes.node(id);
  return node.op == Op::neg ? std::optional(node.args[0]) : std::nullopt;
}

// The result of an exact-by-definition operation on numbers, rounded once to f32; functions that the device computes to
// a tolerance only are left to it.
std::optional<double> evaluate(const NodeBuilder& nodes, const Node& node) {
  double v[3] = {};
  for (size_t i = 0; i < node.args.size(); ++i) {
    const std::optional<float> number = i < 3 ? number_of(nodes, node.args[i]) : std::nullopt;
    if (!number) return std::nullopt;
    v[i] = *number;
  }
  const auto rounded = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  switch (node.op) {
    case Op::add: return rounded(v[0] + v[1]);
    case Op::sub: return rounded(v[0] - v[1]);
    case Op::mul: return rounded(v[0] * v[1]);
    case Op::div: return rounded(v[0] / v[1]);
    case Op::neg: return -v[0];
    case Op::abs: return std::fabs(v[0]);
    default: return std::nullopt;
  }
}

// split(join(a, b)) and join(split(v), split(v)), dealt out alike.
std::optional<NodeId> undone(const NodeBuilder& nodes, const Node& node) {
  const Node& inner = nodes.node(node.args[0]);
  if (node.op == Op::split) {
    const bool inverse = inner.op == Op::join && inner.piece == node.piece;
    return inverse && nodes.whole_name(node) == nodes.whole_name(inner)
               ? std::optional(inner.args[static_cast<size_t>(node.index)])
               : std::nullopt;
  }
  const Node& other = nodes.node(node.args[1]);
  const bool parts = inner.op == Op::split && other.op == Op::split && inner.args == other.args && inner.index == 0 &&
                     other.index == 1 && inner.piece == node.piece && other.piece == node.piece;
  return parts && nodes.whole_name(node) == nodes.whole_name(inner) &&
                 nodes.whole_name(inner) == nodes.whole_name(other)
             ? std::optional(inner.args[0])
             : std::nullopt;
}

// The argument, or argument of an argument, that the node is equal to.
std::optional<NodeId> same_as_argument(const NodeBuilder& nodes, const Node& node) {
  const std::vector<NodeId>& args = node.args;
  switch (node.op) {
    case Op::add:
      if (is_number(nodes, args[0], -0.f)) return args[1];
      if (is_number(nodes, args[1], -0.f)) return args[0];
      break;
    case Op::sub:
      if (is_number(nodes, args[1], 0)) return args[0];
      break;
    case Op::mul:
      if (is_number(nodes, args[0], 1)) return args[1];
      if (is_number(nodes, args[1], 1)) return args[0];
      break;
    case Op::div:
      if (is_number(nodes, args[1], 1)) return args[0];
      break;
    case Op::neg: return negated(nodes, args[0]);
    case Op::min:
    case Op::max:
      if (equal(nodes, args[0], args[1])) return args[0];
      break;
    case Op::select:
      if (const std::optional<float> condition = number_of(nodes, args[0])) return *condition != 0 ? args[1] : args[2];
      if (equal(nodes, args[1], args[2])) return args[1];
      break;
    case Op::split:
    case Op::join: return undone(nodes, node);
    default: break;
  }
  return std::nullopt;
}

// c * x with the number first, whichever way it is written; nothing else that is a product.
struct Multiple {
  float number;
  NodeId value;
};
std::optional<Multiple> as_multiple(const NodeBuilder& nodes, const Node& node) {
  if (node.op != Op::mul) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    if (const std::optional<float> number = number_of(nodes, node.args[i])) return Multiple{*number, node.args[1 - i]};
  return std::nullopt;
}

// c * (…): signs and powers of two move into the number. Gives the value if 1 is left of it.
std::optional<NodeId> simplify_multiple(NodeBuilder& nodes, Node& node, Multiple multiple) {
  const NodeId before = multiple.value;
  if (const std::optional<NodeId> value = negated(nodes, multiple.value)) multiple = {-multiple.number, *value};
  // Powers of two from 1 upward only: below, a product may be subnormal and lose digits that the other order keeps.
  const std::optional<Multiple> inner = as_multiple(nodes, nodes.node(multiple.value));
  const auto scales_up = [](float c) { return is_power_of_two(c) && std::fabs(c) >= 1; };
  if (inner && scales_up(multiple.number) && scales_up(inner->number) && std::isfinite(multiple.number * inner->number))
    multiple = {multiple.number * inner->number, inner->value};
  if (multiple.number == 1) return multiple.value;
  if (multiple.number == -1) {
    node.op = Op::neg;
    node.args = {multiple.value};
  } else if (multiple.value != before) {
    node.args = {nodes.number(multiple.number), multiple.value};
  }
  return std::nullopt;
}

void simplify_signs(NodeBuilder& nodes, Node& node) {
  std::vector<NodeId>& args = node.args;
  const auto inside = [&](size_t i) { return i < args.size() ? negated(nodes, args[i]) : std::nullopt; };
  const std::optional<NodeId> a = inside(0), b = inside(1);
  switch (node.op) {
    case Op::add:
      if (b)
        node.op = Op::sub, args = {args[0], *b};
      else if (a)
        node.op = Op::sub, args = {args[1], *a};
      break;
    case Op::sub:
      if (b) node.op = Op::add, args = {args[0], *b};
      break;
    case Op::mul:
    case Op::div:
      if (a && b) args = {*a, *b};
      break;
    case Op::abs:
      if (a) args = {*a};
      break;
    case Op::neg:
      if (const std::optional<Multiple> product = as_multiple(nodes, nodes.node(args[0]))) {
        node.op = Op::mul;
        args = {nodes.number(-product->number), product->value};
      }
      break;
    default: break;
  }
}

}  // namespace

std::optional<NodeId> simplify_node(NodeBuilder& nodes, Node& node) {
  simplify_signs(nodes, node);
  if (node.op == Op::div)
    if (const std::optional<float> divisor = number_of(nodes, node.args[1]))
      if (const std::optional<float> inverse = exact_inverse(*divisor)) {
        node.op = Op::mul;
        node.args[1] = nodes.number(*inverse);
      }
  if (const std::optional<NodeId> same = same_as_argument(nodes, node)) return same;
  if (const std::optional<double> value = evaluate(nodes, node); value && !node.args.empty()) {
    node.op = Op::number;
    node.number = *value;
    node.args.clear();
    node.shape.clear();
  } else if (const std::optional<Multiple> multiple = as_multiple(nodes, node)) {
    return simplify_multiple(nodes, node, *multiple);
  }
  return std::nullopt;
}

}  // namespace epifuse::lowering
