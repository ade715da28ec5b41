// Appends nodes to a graph: shapes follow from the arguments, and a node that is there already is found again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace epifuse::lowering {

class NodeBuilder {
 public:
  // The graph must outlive the builder; nodes are added to it through the builder alone.
  explicit NodeBuilder(ir::Graph& graph);

  const ir::Node& node(ir::NodeId id) const { return graph_.nodes[static_cast<size_t>(id)]; }

  ir::Extent whole_name(const ir::Node& split_or_join) const { return graph_.whole_name(split_or_join); }
  // The names of a pointwise operation on these.
  ir::Shape shape_of(const std::vector<ir::NodeId>& args) const;

  // As it is, even if an equal node is there.
  ir::NodeId append(ir::Node node);

  ir::NodeId number(double value);
  // A pointwise operation without attributes.
  ir::NodeId map(ir::Op op, std::vector<ir::NodeId> args);
  // One part of a value along `whole`, one of its names; the value itself if it lacks that name.
  ir::NodeId split(ir::NodeId value, const ir::Extent& whole, int part, int64_t piece);
  // Two parts along half of `whole`; either may lack names of the other.
  ir::NodeId join(ir::NodeId first, ir::NodeId second, const ir::Extent& whole, int64_t piece);

  // The product of two values, if a node has it.
  std::optional<ir::NodeId> existing_product(ir::NodeId a, ir::NodeId b) const;

  // The value with exactly these names, which have all of its own: select(1, value, other), where other values bring
  // what it lacks. Nothing if no value of the graph has a name that is needed.
  std::optional<ir::NodeId> broadcast(ir::NodeId value, const ir::Shape& names);

 private:
  struct Key {
    ir::Op op;
    std::vector<ir::NodeId> args;
    int index = 0;
    int64_t piece = 0;
    uint64_t number = 0;  // the bits: 0 and -0 are two numbers
    std::vector<int64_t> whole;
    auto operator<=>(const Key&) const = default;
  };
  bool is_value(const ir::Node& node) const;  // f32 for each point: no integers, nothing that is lowered away
  static Key key_of(const ir::Node& node);
  ir::NodeId find_or_append(ir::Node node);

  ir::Graph& graph_;
  std::map<Key, ir::NodeId> known_;
};

}  // namespace epifuse::lowering
