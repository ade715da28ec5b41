#include "compiler/lowering/derivative_terms.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace epifuse::lowering {

using ir::NodeId;
using ir::Op;

namespace {

// Beyond this a product becomes a node: the search for products that exist is quadratic.
constexpr size_t most_steps = 8;
// How many factors a value is taken apart into when two terms are compared.
constexpr size_t most_factors = 16;

// |coefficient| * steps, without masks; the coefficient comes last, so that products of other terms are shared.
NodeId build_magnitude(NodeBuilder& nodes, const Term& term) {
  double coefficient = std::fabs(term.coefficient);
  std::vector<Term::Step> steps = term.steps;
  const auto first = std::find_if(steps.begin(), steps.end(), [](const Term::Step& s) { return !s.divides; });
  NodeId value = -1;
  if (first == steps.end()) {
    value = nodes.number(coefficient);
    coefficient = 1;
  } else {
    value = first->value;
    steps.erase(first);
  }
  for (const Term::Step& step : steps) value = nodes.map(step.divides ? Op::div : Op::mul, {value, step.value});
  return coefficient == 1 ? value : nodes.map(Op::mul, {nodes.number(coefficient), value});
}

NodeId build_masks(NodeBuilder& nodes, NodeId value, const std::vector<Mask>& masks) {
  for (size_t i = masks.size(); i-- > 0;) {
    const NodeId zero = nodes.number(0);
    value = nodes.map(Op::select, {masks[i].condition, masks[i].taken ? value : zero, masks[i].taken ? zero : value});
  }
  return value;
}

bool is_negative(const Term& term) { return std::signbit(term.coefficient); }

NodeId build_unmasked(NodeBuilder& nodes, const Term& term) {
  if (term.steps.empty()) return nodes.number(term.coefficient);
  const NodeId magnitude = build_magnitude(nodes, term);
  return is_negative(term) ? nodes.map(Op::neg, {magnitude}) : magnitude;
}

// A term as a number times values that are no products themselves, in order; for comparing.
struct Expanded {
  double coefficient = 1;
  std::vector<NodeId> factors, divisors;
};

bool expand(const NodeBuilder& nodes, NodeId id, Expanded& into) {
  const ir::Node& node = nodes.node(id);
  if (node.op == Op::number) {
    into.coefficient *= static_cast<float>(node.number);
  } else if (node.op == Op::neg) {
    into.coefficient = -into.coefficient;
    return expand(nodes, node.args[0], into);
  } else if (node.op == Op::mul) {
    return expand(nodes, node.args[0], into) && expand(nodes, node.args[1], into);
  } else {
    into.factors.push_back(id);
  }
  return into.factors.size() <= most_factors;
}

std::optional<Expanded> expand(const NodeBuilder& nodes, const Term& term) {
  Expanded result;
  result.coefficient = term.coefficient;
  for (const Term::Step& step : term.steps) {
    if (step.divides)
      result.divisors.push_back(step.value);
    else if (!expand(nodes, step.value, result))
      return std::nullopt;
  }
  if (!std::isfinite(result.coefficient) || result.coefficient == 0) return std::nullopt;
  std::sort(result.factors.begin(), result.factors.end());
  std::sort(result.divisors.begin(), result.divisors.end());
  return result;
}

// Adds `b` to `a` if both are the same product but for the number; gives whether it did.
bool add_multiple(const NodeBuilder& nodes, Term& a, const Term& b) {
  if (a.masks != b.masks) return false;
  const std::optional<Expanded> x = expand(nodes, a), y = expand(nodes, b);
  if (!x || !y || x->factors != y->factors || x->divisors != y->divisors) return false;
  a.coefficient += a.coefficient * (y->coefficient / x->coefficient);
  return true;
}

void add_multiples(const NodeBuilder& nodes, Terms& terms) {
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = terms.size(); --j > i;)
      if (add_multiple(nodes, terms[i], terms[j])) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
  std::erase_if(terms, [](const Term& term) { return term.coefficient == 0 && !term.steps.empty(); });
}

// Terms under the same masks as one.
Term add(NodeBuilder& nodes, const Terms& terms) {
  if (terms.size() == 1) return terms.front();
  Term sum;
  sum.masks = terms.front().masks;
  // A sum that begins with what is added needs no negation.
  const auto positive = std::find_if_not(terms.begin(), terms.end(), is_negative);
  const auto first = positive == terms.end() ? terms.begin() : positive;
  if (positive == terms.end()) sum.coefficient = -1;
  NodeId value = build_magnitude(nodes, *first);
  for (auto term = terms.begin(); term != terms.end(); ++term) {
    if (term == first) continue;
    const bool subtract = is_negative(*term) != is_negative(*first);
    value = nodes.map(subtract ? Op::sub : Op::add, {value, build_magnitude(nodes, *term)});
  }
  sum.steps = {{value}};
  return sum;
}

Terms add_under_equal_masks(NodeBuilder& nodes, const Terms& terms) {
  std::vector<Terms> groups;
  for (const Term& term : terms) {
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Terms& g) { return g.front().masks == term.masks; });
    if (group == groups.end())
      groups.push_back({term});
    else
      group->push_back(term);
  }
  Terms result;
  for (const Terms& group : groups) result.push_back(add(nodes, group));
  return result;
}

// The mask that two terms differ in, if they have the same otherwise and it is opposite.
std::optional<size_t> opposite_mask(const Term& a, const Term& b) {
  if (a.masks.size() != b.masks.size()) return std::nullopt;
  std::optional<size_t> found;
  for (size_t i = 0; i < a.masks.size(); ++i) {
    if (a.masks[i] == b.masks[i]) continue;
    if (found || a.masks[i].condition != b.masks[i].condition) return std::nullopt;
    found = i;
  }
  return found;
}

// Replaces two terms of which exactly one counts by a choice between them; gives whether there were such.
bool choose_between_opposites(NodeBuilder& nodes, Terms& terms) {
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = i + 1; j < terms.size(); ++j) {
      const std::optional<size_t> mask = opposite_mask(terms[i], terms[j]);
      if (!mask) continue;
      const Mask first = terms[i].masks[*mask];
      Term choice;
      choice.masks = terms[i].masks;
      choice.masks.erase(choice.masks.begin() + static_cast<std::ptrdiff_t>(*mask));
      if (terms[i].steps == terms[j].steps && terms[i].coefficient == terms[j].coefficient) {
        choice.coefficient = terms[i].coefficient;
        choice.steps = terms[i].steps;
      } else {
        const NodeId a = build_unmasked(nodes, terms[i]), b = build_unmasked(nodes, terms[j]);
        choice.steps = {{nodes.map(Op::select, {first.condition, first.taken ? a : b, first.taken ? b : a})}};
      }
      terms[i] = std::move(choice);
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
      return true;
    }
  return false;
}

}  // namespace

Term product(NodeBuilder& nodes, const Term& a, const Term& b) {
  Term result = a;
  result.coefficient *= b.coefficient;
  result.steps.insert(result.steps.end(), b.steps.begin(), b.steps.end());
  for (const Mask& mask : b.masks)
    if (std::find(result.masks.begin(), result.masks.end(), mask) == result.masks.end()) result.masks.push_back(mask);
  // x * s where the forward pass has computed it.
  std::vector<Term::Step>& steps = result.steps;
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t j = i + 1; j < steps.size(); ++j) {
      if (steps[i].divides || steps[j].divides) continue;
      const std::optional<NodeId> known = nodes.existing_product(steps[i].value, steps[j].value);
      if (!known) continue;
      steps[i].value = *known;
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(j));
      j = i;
    }
  if (steps.size() > most_steps) {
    Term bare;
    bare.steps = std::move(steps);
    steps = {{build_magnitude(nodes, bare)}};
  }
  return result;
}

Terms combine(NodeBuilder& nodes, Terms terms) {
  add_multiples(nodes, terms);
  terms = add_under_equal_masks(nodes, terms);
  while (choose_between_opposites(nodes, terms)) terms = add_under_equal_masks(nodes, terms);
  return terms;
}

NodeId build(NodeBuilder& nodes, const Terms& terms) {
  // Under equal masks there is one term each: what is left is a sum of choices.
  NodeId value = -1;
  for (const Term& term : combine(nodes, terms)) {
    const NodeId masked = build_masks(nodes, build_unmasked(nodes, term), term.masks);
    value = value < 0 ? masked : nodes.map(Op::add, {value, masked});
  }
  return value < 0 ? nodes.number(0) : value;
}

}  // namespace epifuse::lowering
