#include "compiler/lowering/unfuse.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "base/ensure.h"
#include "compiler/ir/memory_order.h"

namespace epifuse::lowering {
namespace {

using ir::DimId;
using ir::Extent;
using ir::Graph;
using ir::InputId;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Shape;

const Node& node_of(const Graph& graph, NodeId id) { return graph.nodes[static_cast<size_t>(id)]; }
const ir::Dimension& dim_of(const Graph& graph, DimId id) { return graph.dims[static_cast<size_t>(id)]; }

bool is_leaf(const Node& node) { return ir::op_info(node.op).kind == ir::OpKind::leaf; }

// An index into an input of a plain type: its rows are stored as they are.
bool picks_plain_rows(const Graph& graph, const Node& node) {
  return node.op == Op::gather &&
         !graph.inputs[static_cast<size_t>(node_of(graph, node.args[0]).index)].tensor.type.scaled();
}

// One stage as it grows.
class StageBuilder {
 public:
  using Intermediates = std::map<NodeId, const ir::Tensor*>;

  StageBuilder(const Graph& whole, const Intermediates& intermediates) : whole_(whole), intermediates_(intermediates) {
    graph_.dims = whole.dims;
  }

  // The node of an argument: a leaf, or what an earlier stage left in memory.
  NodeId argument(NodeId id) {
    const Node& node = node_of(whole_, id);
    if (is_leaf(node)) return leaf(node);
    return read(*intermediates_.at(id));
  }

  // An operand of a gemm: an input, picked rows that an earlier stage stored, or a part of either.
  NodeId operand(NodeId id) {
    const Node& node = node_of(whole_, id);
    if (is_leaf(node) || picks_plain_rows(whole_, node)) return argument(id);
    Node part = node;
    for (NodeId& arg : part.args) arg = operand(arg);
    return add(std::move(part));
  }

  NodeId operation(NodeId id) {
    Node node = node_of(whole_, id);
    for (NodeId& arg : node.args) arg = node.op == Op::gemm ? operand(arg) : argument(arg);
    return add(std::move(node));
  }

  Graph finish(ir::Output output, const std::string& name) {
    use_inputs_of(output.tensor.type);
    for (const Extent& extent : output.tensor.shape) bring_sizes(extent.dim);
    if (output.contracted)
      for (const DimId dim : *output.contracted) bring_rows(dim);
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      for (const Extent& extent : Shape(graph_.inputs[i].tensor.shape)) bring_sizes(extent.dim);
    for (const Node& node : std::vector<Node>(graph_.nodes)) bring_sizes(node.dim);
    graph_.name = whole_.name + "_" + name;
    graph_.outputs.push_back(std::move(output));
    drop_unused_dims(graph_);
    const std::vector<std::string> faults = ir::verify(graph_);
    EPIFUSE_ENSURE(faults.empty(), fmt::format("the stage {}: {}", graph_.name, fmt::join(faults, "; ")));
    return std::move(graph_);
  }

 private:
  NodeId add(Node node) {
    graph_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(graph_.nodes.size()) - 1;
  }

  NodeId leaf(Node node) {
    if (node.op == Op::input) return read(whole_.inputs[static_cast<size_t>(node.index)].tensor);
    if (node.op == Op::param) node.index = param(node.index);
    return add(std::move(node));
  }

  NodeId read(const ir::Tensor& tensor) {
    Node node;
    node.op = Op::input;
    node.index = input(tensor);
    node.shape = tensor.shape;
    node.where = tensor.where;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op == Op::input && graph_.nodes[i].index == node.index) return static_cast<NodeId>(i);
    return add(std::move(node));
  }

  InputId input(const ir::Tensor& tensor) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (graph_.inputs[i].tensor.name == tensor.name) return static_cast<InputId>(i);
    graph_.inputs.push_back({tensor, std::nullopt, false});
    const auto id = static_cast<InputId>(graph_.inputs.size()) - 1;
    use_inputs_of(tensor.type);
    return id;
  }

  // The inputs that a type's options name.
  void use_inputs_of(const ir::TensorType& type) {
    for (const std::string& name : {type.amax_input, type.seed_input})
      for (const ir::Input& named : whole_.inputs)
        if (named.tensor.name == name) input(named.tensor);
  }

  // The capacity of a grouped dimension is read off a tensor over it; where a stage knows it through an aligned form
  // alone, an input brings it along. So it is with the rows of a slot.
  void bring_sizes(DimId id) {
    if (id < 0) return;
    const ir::Dimension& dim = dim_of(graph_, id);
    if (dim.kind == ir::DimKind::aligned) {
      bring_input_over(dim.base);
      bring_sizes(dim.base);
    }
    if (dim.slot && dim.slot->dim >= 0 && dim_of(graph_, dim.slot->dim).kind == ir::DimKind::dynamic)
      bring_input_over(dim.slot->dim);
  }

  // A grouped dimension that the stage knows by its empty groups alone.
  void bring_rows(DimId grouped) {
    bring_sizes(grouped);
    bool found = bring_input_over(grouped);
    for (size_t id = 0; id < whole_.dims.size() && !found; ++id)
      found = whole_.dims[id].base == grouped && bring_input_over(static_cast<DimId>(id));
  }

  // False where no input of the kernel lies over it.
  bool bring_input_over(DimId wanted) {
    const auto lies_over = [&](const ir::Input& input) {
      const Shape& shape = input.tensor.shape;
      return std::any_of(shape.begin(), shape.end(), [&](const Extent& extent) { return extent.dim == wanted; });
    };
    if (std::any_of(graph_.inputs.begin(), graph_.inputs.end(), lies_over)) return true;
    const auto found = std::find_if(whole_.inputs.begin(), whole_.inputs.end(), lies_over);
    if (found == whole_.inputs.end()) return false;
    input(found->tensor);
    return true;
  }

  ir::ParamId param(ir::ParamId id) {
    const ir::Param& wanted = whole_.params[static_cast<size_t>(id)];
    for (size_t i = 0; i < graph_.params.size(); ++i)
      if (graph_.params[i].name == wanted.name) return static_cast<ir::ParamId>(i);
    graph_.params.push_back(wanted);
    return static_cast<ir::ParamId>(graph_.params.size()) - 1;
  }

  const Graph& whole_;
  const Intermediates& intermediates_;
  Graph graph_;
};

class Cutter {
 public:
  explicit Cutter(Graph graph) : graph_(std::move(graph)), stored_(graph_.nodes.size()) {}

  Unfused run() {
    for (const ir::Output& output : graph_.outputs) {
      EPIFUSE_ENSURE(!output.left_out, "unfuse of an output that is left out");
      store(output.value);
    }
    name_intermediates();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
      if (stored_[static_cast<size_t>(id)]) value_stage(id);
      // Right behind its value, so that intermediates are soon free.
      for (size_t i = 0; i < graph_.outputs.size(); ++i)
        if (graph_.outputs[i].value == id) output_stage(static_cast<int>(i));
    }
    find_last_readers();
    result_.graph = std::move(graph_);
    return std::move(result_);
  }

 private:
  // Marks a value that somebody reads as an intermediate, and what its own stage reads.
  void store(NodeId id) {
    const Node& node = node_of(graph_, id);
    EPIFUSE_ENSURE(node.op != Op::grad, "unfuse of a graph with grad");
    if (is_leaf(node) || stored_[static_cast<size_t>(id)]) return;
    stored_[static_cast<size_t>(id)] = true;
    for (const NodeId arg : node.args) node.op == Op::gemm ? store_operand(arg) : store(arg);
  }
  void store_operand(NodeId id) {
    const Node& node = node_of(graph_, id);
    if (picks_plain_rows(graph_, node)) return store(id);
    for (const NodeId arg : node.args) store_operand(arg);
  }

  void name_intermediates() {
    std::set<std::string> taken = {"workspace"};
    for (const ir::Dimension& dim : graph_.dims) taken.insert(dim.name);
    for (const ir::Param& param : graph_.params) taken.insert(param.name);
    for (const ir::Input& input : graph_.inputs) taken.insert(input.tensor.name);
    for (const ir::Output& output : graph_.outputs) taken.insert(output.tensor.name);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (!stored_[id]) continue;
      const Node& node = graph_.nodes[id];
      Intermediate made;
      made.value = static_cast<NodeId>(id);
      made.tensor.name = node.name;
      if (node.name.empty() || taken.count(node.name) != 0) made.tensor.name = fmt::format("t{}", id);
      while (!taken.insert(made.tensor.name).second) made.tensor.name += "_";
      if (node.op == Op::gather)
        made.tensor.type = graph_.inputs[static_cast<size_t>(node_of(graph_, node.args[0]).index)].tensor.type;
      if (made.tensor.type.scaled()) made.tensor.type = {};
      made.tensor.shape = ir::memory_order(graph_, made.value);
      made.tensor.where = node.where;
      result_.intermediates.push_back(std::move(made));
    }
    for (const Intermediate& made : result_.intermediates) tensors_[made.value] = &made.tensor;
  }

  void value_stage(NodeId id) {
    StageBuilder builder(graph_, tensors_);
    ir::Output output;
    output.tensor = *tensors_.at(id);
    output.value = builder.operation(id);
    const std::string name = output.tensor.name;
    result_.stages.push_back({builder.finish(std::move(output), name), id, -1});
  }

  void output_stage(int index) {
    StageBuilder builder(graph_, tensors_);
    ir::Output output = graph_.outputs[static_cast<size_t>(index)];
    const NodeId value = output.value;
    const std::string name = output.tensor.name;
    if (std::vector<DimId> contracted = graph_.contracted_groups(output); !contracted.empty())
      output.contracted = std::move(contracted);
    output.value = builder.argument(value);
    if (!output.tensor.type.seed_input.empty())
      output.ordinal = graph_.ordinal(graph_.outputs[static_cast<size_t>(index)]);
    result_.stages.push_back({builder.finish(std::move(output), name), value, index});
  }

  void find_last_readers() {
    for (Intermediate& made : result_.intermediates) {
      for (size_t i = 0; i < result_.stages.size(); ++i) {
        const UnfusedStage& stage = result_.stages[i];
        if (stage.output < 0 && stage.value == made.value) made.made_by = static_cast<int>(i);
        for (const ir::Input& input : stage.graph.inputs)
          if (input.tensor.name == made.tensor.name) made.last_read_by = static_cast<int>(i);
      }
    }
  }

  Graph graph_;
  std::vector<bool> stored_;
  StageBuilder::Intermediates tensors_;
  Unfused result_;
};

}  // namespace

void drop_unused_dims(Graph& graph) {
  std::set<DimId> used;
  const auto use = [&](const auto& self, DimId id) -> void {
    if (id < 0 || !used.insert(id).second) return;
    const ir::Dimension& dim = dim_of(graph, id);
    self(self, dim.cut_by);
    self(self, dim.base);
    if (dim.slot) self(self, dim.slot->dim);
  };
  const auto visit = [&](auto&& each) {
    const auto shape = [&](Shape& extents) {
      for (Extent& extent : extents) each(extent.dim);
    };
    for (ir::Input& input : graph.inputs) shape(input.tensor.shape);
    for (ir::Output& output : graph.outputs) {
      shape(output.tensor.shape);
      if (output.contracted)
        for (DimId& id : *output.contracted) each(id);
    }
    for (Node& node : graph.nodes) shape(node.shape), each(node.along.dim), each(node.dim);
  };
  visit([&](DimId id) { use(use, id); });
  std::vector<DimId> becomes(graph.dims.size(), -1);
  std::vector<ir::Dimension> kept;
  for (const DimId id : used) {
    becomes[static_cast<size_t>(id)] = static_cast<DimId>(kept.size());
    kept.push_back(dim_of(graph, id));
  }
  const auto rename = [&](DimId& id) { id = id < 0 ? -1 : becomes[static_cast<size_t>(id)]; };
  visit(rename);
  for (ir::Dimension& dim : kept) {
    rename(dim.cut_by);
    rename(dim.base);
    if (dim.slot) rename(dim.slot->dim);
  }
  graph.dims = std::move(kept);
}

Unfused unfuse(Graph graph) { return Cutter(std::move(graph)).run(); }

}  // namespace epifuse::lowering
