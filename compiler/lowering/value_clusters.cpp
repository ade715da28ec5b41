#include "compiler/lowering/value_clusters.h"

#include <algorithm>
#include <map>
#include <set>

namespace epifuse::lowering {
namespace {

// Nodes that are computed with these values, which are among them: operations, and leaves as far as they go.
std::set<int> nodes_of(const Epilogue& epilogue, const std::vector<int>& roots) {
  std::set<int> found;
  std::vector<int> open = roots;
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    const EpilogueNode& node = epilogue.nodes[static_cast<size_t>(id)];
    if (found.insert(id).second && node.kind == EpilogueNode::Kind::map)
      open.insert(open.end(), node.args.begin(), node.args.end());
  }
  return found;
}

std::set<int> operations_of(const Epilogue& epilogue, const std::vector<int>& roots) {
  std::set<int> found = nodes_of(epilogue, roots);
  std::erase_if(found, [&](int id) { return epilogue.nodes[static_cast<size_t>(id)].kind != EpilogueNode::Kind::map; });
  return found;
}

bool meet(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int id) { return b.count(id) != 0; });
}

// How many hadamards lie one behind the other on the way to a node.
std::vector<int> depths_of(const Epilogue& epilogue) {
  std::vector<int> depths(epilogue.nodes.size());
  for (size_t i = 0; i < depths.size(); ++i) {
    const EpilogueNode& node = epilogue.nodes[i];
    for (const int argument : node.args) depths[i] = std::max(depths[i], depths[static_cast<size_t>(argument)]);
    if (node.kind == EpilogueNode::Kind::hadamard) ++depths[i];
  }
  return depths;
}

std::vector<SinkGroup> groups_of(const Epilogue& epilogue) {
  std::vector<SinkGroup> groups;
  auto group_of = [&](const std::vector<int>& values) -> SinkGroup& {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const SinkGroup& g) { return g.values == values; });
    return at == groups.end() ? groups.emplace_back(SinkGroup{values, {}, {}}) : *at;
  };
  for (const Sink& sink : epilogue.sinks) group_of(sink.values).sinks.push_back(&sink);
  for (size_t i = 0; i < epilogue.nodes.size(); ++i)
    if (epilogue.nodes[i].kind == EpilogueNode::Kind::hadamard)
      group_of(epilogue.nodes[i].args).hadamards.push_back(static_cast<int>(i));
  return groups;
}

struct Growing {
  ValueCluster cluster;
  std::set<int> operations;
  int depth = 0;
};

void add_roots(ValueCluster& cluster, const std::vector<int>& values) {
  for (const int value : values)
    if (std::find(cluster.roots.begin(), cluster.roots.end(), value) == cluster.roots.end())
      cluster.roots.push_back(value);
}

}  // namespace

bool ValueCluster::at_once(const Epilogue& epilogue) const {
  return roots.size() > 1 && std::any_of(roots.begin(), roots.end(), [&](int root) {
           return epilogue.nodes[static_cast<size_t>(root)].kind == EpilogueNode::Kind::map;
         });
}

bool ValueCluster::rotates() const {
  return std::any_of(groups.begin(), groups.end(), [](const SinkGroup& group) { return !group.hadamards.empty(); });
}

bool zero_when_empty(const KernelPlan& plan, const SinkGroup& group) {
  const bool more = std::any_of(group.values.begin(), group.values.end(), [&](int value) {
    return plan.epilogue.nodes[static_cast<size_t>(value)].kind != EpilogueNode::Kind::accumulator;
  });
  return more && std::any_of(group.sinks.begin(), group.sinks.end(),
                             [&](const Sink* sink) { return keeps_groups(*sink) && contracts_groups(plan, *sink); });
}

bool sums_products(const KernelPlan& plan, const SinkGroup& group) {
  if (group.values.size() != 1 || !group.hadamards.empty() || zero_when_empty(plan, group)) return false;
  const EpilogueNode& node = plan.epilogue.nodes[static_cast<size_t>(group.values[0])];
  return node.kind == EpilogueNode::Kind::map && node.op == ir::Op::mul &&
         std::all_of(group.sinks.begin(), group.sinks.end(), [&](const Sink* sink) {
           return sink->kind == SinkKind::reduce_rows && sink->reduction == ir::Reduction::sum &&
                  plan.places[static_cast<size_t>(sink->place)].alignment == 1;
         });
}

std::vector<ValueCluster> value_clusters(const Epilogue& epilogue) {
  const std::vector<int> depths = depths_of(epilogue);
  std::vector<Growing> growing;
  for (SinkGroup& group : groups_of(epilogue)) {
    Growing now;
    for (const int value : group.values) now.depth = std::max(now.depth, depths[static_cast<size_t>(value)]);
    now.operations = operations_of(epilogue, group.values);
    add_roots(now.cluster, group.values);
    // What it shares operations with joins it, at the place of the first.
    size_t place = growing.size();
    for (size_t i = growing.size(); i-- > 0;) {
      if (growing[i].depth != now.depth || !meet(growing[i].operations, now.operations)) continue;
      Growing& other = growing[i];
      add_roots(other.cluster, now.cluster.roots);
      other.cluster.groups.insert(other.cluster.groups.end(), std::make_move_iterator(now.cluster.groups.begin()),
                                  std::make_move_iterator(now.cluster.groups.end()));
      other.operations.merge(now.operations);
      now = std::move(other);
      growing.erase(growing.begin() + static_cast<std::ptrdiff_t>(i));
      place = i;
    }
    now.cluster.groups.push_back(std::move(group));
    growing.insert(growing.begin() + static_cast<std::ptrdiff_t>(place), std::move(now));
  }
  // What is rotated waits in registers, and so comes late.
  std::stable_sort(growing.begin(), growing.end(), [](const Growing& a, const Growing& b) {
    return std::pair(a.depth, a.cluster.rotates()) < std::pair(b.depth, b.cluster.rotates());
  });
  std::vector<ValueCluster> clusters;
  for (Growing& grown : growing) clusters.push_back(std::move(grown.cluster));
  return clusters;
}

std::vector<int> waiting_blocks(const Epilogue& epilogue, const std::vector<ValueCluster>& clusters) {
  struct Life {
    size_t made = 0, last = 0;  // in which clusters
  };
  std::map<int, Life> lives;
  std::vector<bool> sums(clusters.size());
  for (size_t i = 0; i < clusters.size(); ++i) {
    for (const int id : nodes_of(epilogue, clusters[i].roots)) {
      const EpilogueNode::Kind kind = epilogue.nodes[static_cast<size_t>(id)].kind;
      if (kind == EpilogueNode::Kind::hadamard) lives.at(id).last = i;
      if (kind == EpilogueNode::Kind::accumulator) sums[i] = true;
    }
    for (const SinkGroup& group : clusters[i].groups)
      for (const int id : group.hadamards) lives[id] = {i, i};
  }
  std::vector<int> waiting(clusters.size());
  for (size_t i = 0; i < clusters.size(); ++i)
    for (const auto& [id, life] : lives)
      if (life.made < i && (life.last > i || (life.last == i && sums[i]))) ++waiting[i];
  return waiting;
}

}  // namespace epifuse::lowering
