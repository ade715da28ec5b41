// Reverse mode, from f down to the values asked for. The derivative of a value is kept relative to the nearest value
// that all its ways to f pass through (its dominator): what is common to the ways is multiplied once, and a function of
// one variable is differentiated by itself. Only split, join and sums with masks force a gradient of f itself.
#include "compiler/lowering/differentiate.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/ensure.h"
#include "compiler/lowering/derivative_terms.h"
#include "compiler/lowering/local_derivative.h"

namespace epifuse::lowering {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;

constexpr NodeId top = -1;  // above f: what the gradients of f itself are relative to

class Sweep {
 public:
  Sweep(const Graph& graph, NodeBuilder& nodes, NodeId f, NodeId seed, const std::set<NodeId>& xs)
      : graph_(graph), nodes_(nodes), f_(f), seed_(seed), values_(static_cast<size_t>(f) + 1) {
    for (NodeId id = 0; id <= f; ++id) {
      value(id).has_x = xs.contains(id);
      for (const NodeId arg : nodes_.node(id).args) value(id).has_x = value(id).has_x || value(arg).has_x;
    }
    for (NodeId id = f; id >= 0; --id)
      if (value(id).has_x) visit(id);
  }

  // seed * df/dx; 0 where f depends on x by a condition alone.
  NodeId gradient(NodeId x) { return value(x).reached ? build(nodes_, gradient_terms(x)) : nodes_.number(0); }

 private:
  struct Edge {
    NodeId user;
    Term term;  // d user / d value
  };
  struct Value {
    bool has_x = false;    // a value asked for, or computed from one
    bool reached = false;  // f depends on it
    std::vector<Edge> edges;
    // Gradients that a split takes apart or a join puts together: of the parts by (piece, name), and finished ones.
    std::vector<NodeId> splits, joins;
    NodeId dominator = top;
    int depth = 0;
    Terms derivative;  // of the dominator by this value; of f, times the seed, under the top
    std::optional<Term> gradient;
  };

  Value& value(NodeId id) { return values_[static_cast<size_t>(id)]; }

  void visit(NodeId id) {
    Value& at = value(id);
    if (id == f_) {
      const Node& seed = nodes_.node(seed_);
      Term term;
      if (seed.op == Op::number)
        term.coefficient = seed.number;
      else
        term.steps = {{seed_}};
      at.derivative = {term};
    } else if (!at.splits.empty() || !at.joins.empty()) {
      at.derivative = from_parts(id);
      for (const Term& term : relative_to(at.edges, top)) at.derivative.push_back(term);
      at.derivative = {{1, {{build(nodes_, at.derivative)}}, {}}};
    } else if (!at.edges.empty()) {
      place_under_dominator(id);
    }
    if (at.derivative.empty()) return;  // no way to f, or ways that cancel
    at.reached = true;
    at.depth = at.dominator == top ? 0 : value(at.dominator).depth + 1;
    pass_on(id);
  }

  void place_under_dominator(NodeId id) {
    Value& at = value(id);
    at.dominator = at.edges.front().user;
    for (const Edge& edge : at.edges) at.dominator = common(at.dominator, edge.user);
    at.derivative = relative_to(at.edges, at.dominator);
    if (at.derivative.size() < 2) return;
    // Masks of its own for each way: the gradient itself has to go under each of them.
    Terms terms;
    if (at.dominator == top) {
      terms = at.derivative;
    } else {
      const Term above = gradient_term(at.dominator);
      for (const Term& term : at.derivative) terms.push_back(product(nodes_, above, term));
    }
    at.dominator = top;
    at.derivative = {{1, {{build(nodes_, terms)}}, {}}};
  }

  // Notes, at the arguments, how the value depends on them.
  void pass_on(NodeId id) {
    const Node node = nodes_.node(id);  // a copy: adding nodes moves them
    const bool both = std::all_of(node.args.begin(), node.args.end(), [&](NodeId arg) { return value(arg).has_x; });
    for (size_t i = 0; i < node.args.size(); ++i) {
      Value& argument = value(node.args[i]);
      if (!argument.has_x) continue;
      if (node.op == Op::split) {
        argument.splits.push_back(id);
      } else if (node.op == Op::join) {
        // A value joined with itself is met twice, once for each part.
        if (i == 0 || node.args[0] != node.args[1]) argument.joins.push_back(id);
      } else if (std::optional<Term> term = local_derivative(nodes_, id, i, both)) {
        argument.edges.push_back({id, *std::move(term)});
      }
    }
  }

  // The gradient of a value by its parts, and as a part.
  Terms from_parts(NodeId id) {
    Terms terms;
    const auto add = [&](NodeId gradient) { terms.push_back({1, {{gradient}}, {}}); };
    std::map<int64_t, std::array<Terms, 2>> halves;  // by piece
    for (const NodeId part : value(id).splits) {
      const int64_t piece = nodes_.node(part).piece;
      const size_t half = static_cast<size_t>(nodes_.node(part).index);
      halves[piece][half].push_back(gradient_term(part));
    }
    for (const auto& [piece, sums] : halves) {
      const ir::Extent whole = graph_.whole_name(nodes_.node(value(id).splits.front()));
      const NodeId first = build(nodes_, sums[0]), second = build(nodes_, sums[1]);
      add(nodes_.join(first, second, whole, piece));
    }
    for (const NodeId join : value(id).joins) {
      const Node node = nodes_.node(join);
      const ir::Extent whole = graph_.whole_name(node);
      const NodeId gradient = build(nodes_, gradient_terms(join));
      for (int part = 0; part < 2; ++part)
        if (node.args[static_cast<size_t>(part)] == id) add(nodes_.split(gradient, whole, part, node.piece));
    }
    return terms;
  }

  // The lowest value that both pass through; a value passes through itself.
  NodeId common(NodeId a, NodeId b) {
    while (a != b) {
      if (a == top || b == top) return top;
      NodeId& deeper = value(a).depth >= value(b).depth ? a : b;
      deeper = value(deeper).dominator;
    }
    return a;
  }

  // The sum over the ways from `above` through these edges.
  Terms relative_to(const std::vector<Edge>& edges, NodeId above) {
    Terms terms;
    std::map<NodeId, std::vector<Edge>, std::greater<>> below;  // by the child of `above` that the way passes
    for (const Edge& edge : edges) {
      if (edge.user == above) {
        terms.push_back(edge.term);
        continue;
      }
      NodeId child = edge.user;
      while (value(child).dominator != above) child = value(child).dominator;
      below[child].push_back(edge);
    }
    for (const auto& [child, ways] : below)
      for (const Term& term : relative_to(ways, child))
        terms.push_back(product(nodes_, value(child).derivative.front(), term));
    return combine(nodes_, std::move(terms));
  }

  Term gradient_term(NodeId id) {
    // Down the dominators, without recursion: a chain may be longer than the stack is deep.
    std::vector<NodeId> open;
    for (NodeId at = id; at != top && !value(at).gradient; at = value(at).dominator) open.push_back(at);
    for (; !open.empty(); open.pop_back()) {
      Value& at = value(open.back());
      at.gradient = at.dominator == top ? at.derivative.front()
                                        : product(nodes_, *value(at.dominator).gradient, at.derivative.front());
    }
    return *value(id).gradient;
  }
  Terms gradient_terms(NodeId id) { return {gradient_term(id)}; }

  const Graph& graph_;
  NodeBuilder& nodes_;
  NodeId f_, seed_;
  std::vector<Value> values_;
};

}  // namespace

Graph differentiate(Graph graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op == Op::grad; }))
    return graph;
  // All that is asked of one f with one seed, in one sweep.
  const auto pair_of = [](const Node& grad) { return std::pair(grad.args[0], grad.args[1]); };
  std::map<std::pair<NodeId, NodeId>, std::set<NodeId>> asked;
  for (const Node& node : graph.nodes)
    if (node.op == Op::grad) asked[pair_of(node)].insert(node.args[static_cast<size_t>(node.index) + 2]);

  const std::vector<Node> before = std::move(graph.nodes);
  graph.nodes.clear();
  NodeBuilder nodes(graph);
  std::vector<NodeId> becomes;
  std::map<std::pair<NodeId, NodeId>, Sweep> sweeps;
  for (const Node& node : before) {
    if (node.op == Op::grad) {
      auto sweep = sweeps.find(pair_of(node));
      if (sweep == sweeps.end()) {
        std::set<NodeId> xs;
        for (const NodeId x : asked[pair_of(node)]) xs.insert(becomes[static_cast<size_t>(x)]);
        const NodeId f = becomes[static_cast<size_t>(node.args[0])], seed = becomes[static_cast<size_t>(node.args[1])];
        sweep = sweeps.emplace(pair_of(node), Sweep(graph, nodes, f, seed, xs)).first;
      }
      const NodeId x = becomes[static_cast<size_t>(node.args[static_cast<size_t>(node.index) + 2])];
      const std::optional<NodeId> gradient = nodes.broadcast(sweep->second.gradient(x), node.shape);
      EPIFUSE_ENSURE(gradient && graph.same_names(graph.nodes[static_cast<size_t>(*gradient)].shape, node.shape),
                     "a gradient with other names than the resolver's");
      becomes.push_back(*gradient);
      continue;
    }
    Node copy = node;
    for (NodeId& arg : copy.args) arg = becomes[static_cast<size_t>(arg)];
    becomes.push_back(nodes.append(std::move(copy)));
  }
  for (ir::Output& output : graph.outputs) output.value = becomes[static_cast<size_t>(output.value)];
  return graph;
}

}  // namespace epifuse::lowering
