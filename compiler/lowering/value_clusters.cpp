#include "compiler/lowering/value_clusters.h"

#include <algorithm>
#include <set>

namespace epifuse::lowering {
namespace {

// Operations that a value needs, itself included.
std::set<int> operations_of(const Epilogue& epilogue, const std::vector<int>& roots) {
  std::set<int> found;
  std::vector<int> open = roots;
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    const EpilogueNode& node = epilogue.nodes[static_cast<size_t>(id)];
    if (node.kind != EpilogueNode::Kind::map || !found.insert(id).second) continue;
    open.insert(open.end(), node.args.begin(), node.args.end());
  }
  return found;
}

bool meet(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int id) { return b.count(id) != 0; });
}

struct Growing {
  ValueCluster cluster;
  std::set<int> operations;
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

bool zero_when_empty(const KernelPlan& plan, const SinkGroup& group) {
  if (!plan.ragged_boxes) return false;
  const bool more = std::any_of(group.values.begin(), group.values.end(), [&](int value) {
    return plan.epilogue.nodes[static_cast<size_t>(value)].kind != EpilogueNode::Kind::accumulator;
  });
  return more &&
         std::any_of(group.sinks.begin(), group.sinks.end(), [](const Sink* sink) { return keeps_groups(*sink); });
}

std::vector<ValueCluster> value_clusters(const Epilogue& epilogue) {
  std::vector<SinkGroup> groups;
  for (const Sink& sink : epilogue.sinks) {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const SinkGroup& g) { return g.values == sink.values; });
    if (at == groups.end()) at = groups.insert(groups.end(), {sink.values, {}});
    at->sinks.push_back(&sink);
  }

  std::vector<Growing> growing;
  for (SinkGroup& group : groups) {
    Growing now;
    now.operations = operations_of(epilogue, group.values);
    add_roots(now.cluster, group.values);
    // What it shares operations with joins it, at the place of the first.
    size_t place = growing.size();
    for (size_t i = growing.size(); i-- > 0;) {
      if (!meet(growing[i].operations, now.operations)) continue;
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
  std::vector<ValueCluster> clusters;
  for (Growing& grown : growing) clusters.push_back(std::move(grown.cluster));
  return clusters;
}

}  // namespace epifuse::lowering
