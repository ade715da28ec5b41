#include "compiler/lowering/pointwise/recipe.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "base/recipe_limits.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/plan_groups.h"
#include "compiler/lowering/recipe_fields.h"

namespace epifuse::lowering {
namespace {

// Enough to hide the latency of memory, few enough that each lays out the groups once for many items.
constexpr int64_t blocks_per_multiprocessor = 8;
constexpr int64_t warp = 32;
constexpr int scale_vector = 16;  // bytes of a tile of scales that are set to zero at once

class Writer {
 public:
  Writer(const ir::Graph& graph, const KernelPlan& plan) : graph_(graph), plan_(plan) {}

  LaunchRecipe run() {
    recipe_.kernel = graph_.name;
    recipe_.target = plan_.target.name;
    for (const ir::Param& param : graph_.params) recipe_.params.push_back({param.name, param.default_value});
    add_buffers();
    for (const PointwiseLaunch& launch : plan_.pointwise) add_step(launch);
    for (const WorkspaceRegion& region : plan_.workspace) recipe_.workspace_bytes = region.offset + region.bytes;
    add_symbols(graph_, recipe_);
    return recipe_;
  }

 private:
  const ir::Tensor& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)].tensor; }
  const ir::Tensor& output(const PointwiseLaunch& launch) const {
    return graph_.outputs[static_cast<size_t>(launch.output)].tensor;
  }

  void add_buffers() {
    for (const ir::Buffer& buffer : ir::buffers(graph_)) {
      RecipeTensor tensor;
      tensor.name = buffer.name;
      tensor.storage = buffer.storage;
      tensor.role = buffer.role;
      tensor.extents = buffer.extents;
      tensor.pointer_axes = buffer.pointer_axes;
      tensor.strided = buffer.role != TensorRole::group_sizes && !buffer.is_scale;
      const int bits = storage_bits(buffer.storage) * (buffer.is_scale ? 1 : neighbours(buffer));
      tensor.alignment = buffer.is_scale && in_tiles(buffer.tensor) ? scale_vector : std::clamp(bits / 8, 1, 16);
      if (buffer.role == TensorRole::group_sizes) describe_groups(graph_, buffer.tensor, tensor);
      recipe_.tensors.push_back(std::move(tensor));
    }
  }

  // Elements that are read or written at once.
  int neighbours(const ir::Buffer& buffer) const {
    for (const PointwiseLaunch& launch : plan_.pointwise) {
      if (buffer.role == TensorRole::output && launch.output >= 0 && output(launch).name == buffer.name &&
          stores_lanes(launch))
        return launch.width;
      for (const PointwiseNode& node : launch.value.nodes)
        if (node.kind == PointwiseNode::Kind::input && node.wide && input(node.index).name == buffer.name) return 8;
    }
    return 1;
  }
  static bool stores_lanes(const PointwiseLaunch& launch) {
    return launch.lane_axis >= 0 && launch.lane_axis + 1 == launch.kept && !launch.is_partial();
  }
  bool in_tiles(const std::string& tensor) const {
    return std::any_of(plan_.pointwise.begin(), plan_.pointwise.end(), [&](const PointwiseLaunch& launch) {
      return launch.kind == PointwiseKind::clear && output(launch).name == tensor;
    });
  }

  void address(const std::string& name, const std::string& tensor, IntExpr offset = 0) {
    add_address(step_, name, tensor, std::move(offset));
  }
  void wide_number(const std::string& name, IntExpr value) {
    add_field(step_, name, FieldKind::integer64, "", std::move(value));
  }
  void number(const std::string& name, IntExpr value) { add_integer(step_, name, std::move(value)); }

  static std::set<ir::NodeId> rotations_of(const PointwiseLaunch& launch) {
    std::set<ir::NodeId> ids;
    for (const PointwiseNode& node : launch.value.nodes)
      if (node.kind == PointwiseNode::Kind::rotated) ids.insert(node.index);
    return ids;
  }
  static std::set<ir::InputId> inputs_of(const PointwiseLaunch& launch) {
    std::set<ir::InputId> ids;
    for (const PointwiseNode& node : launch.value.nodes)
      if (node.kind == PointwiseNode::Kind::input) ids.insert(node.index);
    for (const PointwiseCoordinate& c : launch.value.coordinates)
      if (c.kind == PointwiseCoordinate::Kind::gathered) ids.insert(c.input);
    return ids;
  }

  void strides(const ir::Tensor& tensor, const std::string& name) {
    for (size_t axis = static_cast<size_t>(tensor.pointer_axes); axis + 1 < tensor.shape.size(); ++axis)
      wide_number(fmt::format("stride{}_{}", axis, name),
                  IntExpr::symbol(fmt::format("{}.stride{}", tensor.name, axis)));
  }

  void add_step(const PointwiseLaunch& launch) {
    step_ = RecipeStep{};
    step_.kind = RecipeStep::Kind::launch;
    step_.entry = launch.entry;
    step_.block = pointwise_threads;
    step_.shared_bytes = static_cast<uint32_t>(4 * launch.shared_words);
    const bool stores = !launch.is_partial() && launch.kind != PointwiseKind::clear;
    const std::set<ir::InputId> inputs = inputs_of(launch);
    const std::set<ir::NodeId> rotations = rotations_of(launch);
    for (const PointwiseTable& table : launch.tables)
      address("sizes_" + dim_name(table.grouped), ir::group_sizes_name(graph_, table.grouped));
    for (const ir::InputId id : inputs) address("in_" + input(id).name, input(id).name);
    for (const ir::NodeId id : rotations) rotation_address(fmt::format("rotated_{}", id), id);
    if (launch.kind == PointwiseKind::rotate)
      rotation_address("out", launch.rotation);
    else if (launch.chunk > 0)
      address("partials", std::string(workspace_name), launch.partials_offset);
    if (stores) address("out", output(launch).name);
    const bool scales = launch.kind == PointwiseKind::blocks || launch.kind == PointwiseKind::clear;
    if (scales) address("scales", output(launch).name + ".scale");
    if (launch.kind == PointwiseKind::blocks) options(output(launch).type);

    const IntExpr items = item_count(launch);
    wide_number("items", items);
    for (const ir::InputId id : inputs) strides(input(id), "in_" + input(id).name);
    for (const ir::NodeId id : rotations) rotation_strides(id, fmt::format("rotated_{}", id));
    if (launch.kind == PointwiseKind::rotate) rotation_strides(launch.rotation, "out");
    if (stores) strides(output(launch), "out");
    if (scales) scale_strides(output(launch));

    for (size_t i = 0; i < launch.axes.size(); ++i)
      number(fmt::format("size_{}", i), ir::extent_expression(graph_, launch.axes[i].name));
    for (const PointwiseTable& table : launch.tables) {
      number("capacity_" + dim_name(table.grouped), ir::extent_expression(graph_, {1, table.grouped, 1}));
      if (graph_.dims[static_cast<size_t>(table.grouped)].slot)
        number("slot_" + dim_name(table.grouped), slot_rows(graph_, table.grouped));
    }
    if (launch.chunk > 0 && launch.split.grouped < 0) {
      if (launch.is_partial())
        number("split_size", ir::extent_expression(graph_, launch.split.name));
      else
        number("partials_of", partial_count(graph_, launch));
    }
    coordinates(launch);
    params(launch);
    close_fields(step_);
    const IntExpr needed = ceil_div(items, launch.warps ? pointwise_threads / warp : pointwise_threads);
    step_.grid = min(IntExpr::symbol(std::string(multiprocessors_name)) * blocks_per_multiprocessor, needed);
    step_.waits = true;
    recipe_.steps.push_back(step_);
  }

  const std::string& dim_name(ir::DimId dim) const { return graph_.dims[static_cast<size_t>(dim)].name; }

  IntExpr item_count(const PointwiseLaunch& launch) const {
    IntExpr items = 1;
    for (int i = 0; i < launch.kept; ++i) {
      const IntExpr size = ir::extent_expression(graph_, launch.axes[static_cast<size_t>(i)].name);
      items = items * ceil_div(size, launch.axes[static_cast<size_t>(i)].step);
    }
    if (launch.kind == PointwiseKind::clear) {
      const std::vector<IntExpr> extents = scale_extents(output(launch));
      return items * extents[extents.size() - 3] * extents[extents.size() - 2];
    }
    return launch.is_partial() ? items * partial_count(graph_, launch) : items;
  }

  std::vector<IntExpr> scale_extents(const ir::Tensor& out) const {
    for (const ir::Buffer& buffer : ir::buffers(graph_))
      if (buffer.is_scale && buffer.tensor == out.name && buffer.role == TensorRole::output) return buffer.extents;
    return {};
  }

  // Scales are contiguous.
  void scale_strides(const ir::Tensor& out) {
    const std::vector<IntExpr> extents = scale_extents(out);
    if (out.type.layout == ir::ScaleLayout::blocked_128x4) {
      number("tiles_outer", extents[extents.size() - 3]);
      number("tiles_inner", extents[extents.size() - 2]);
      return;
    }
    for (size_t axis = 0; axis + 1 < extents.size(); ++axis) {
      IntExpr stride = 1;
      for (size_t i = axis + 1; i < extents.size(); ++i) stride = stride * extents[i];
      wide_number(fmt::format("stride{}_scales", axis), stride);
    }
  }

  // The inputs that options name, of those that are bound.
  void options(const ir::TensorType& type) {
    for (const std::string& name : {type.amax_input, type.seed_input})
      for (const ir::Input& in : graph_.inputs)
        if (in.tensor.name == name && !in.left_out) address("option_" + name, name);
  }

  void rotation_address(const std::string& name, ir::NodeId id) {
    address(name, std::string(workspace_name), plan_.region(rotation_region(id)).offset);
  }
  void rotation_strides(ir::NodeId id, const std::string& name) {
    const ir::Shape& shape = graph_.nodes[static_cast<size_t>(id)].shape;
    IntExpr stride = 1;
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      const IntExpr size = ir::extent_expression(graph_, graph_.base_name(shape[axis + 1]));
      stride = stride * (axis + 2 == shape.size() ? round_up(size, 8) : size);
      wide_number(fmt::format("stride{}_{}", axis, name), stride);
    }
  }

  void coordinates(const PointwiseLaunch& launch) {
    using Kind = PointwiseCoordinate::Kind;
    for (size_t i = 0; i < launch.value.coordinates.size(); ++i) {
      const PointwiseCoordinate& c = launch.value.coordinates[i];
      const bool halved = c.kind == Kind::split || c.kind == Kind::join || c.kind == Kind::part;
      if (halved && c.piece == 0)
        number(fmt::format("half_{}", i), exact_div(ir::extent_expression(graph_, c.whole), 2));
      if (c.kind == Kind::gathered) number(fmt::format("limit_{}", i), ir::extent_expression(graph_, c.whole));
    }
  }

  void params(const PointwiseLaunch& launch) {
    std::set<ir::ParamId> used;
    for (const PointwiseNode& node : launch.value.nodes)
      if (node.kind == PointwiseNode::Kind::param) used.insert(node.index);
    for (const ir::ParamId id : used)
      add_field(step_, "param_" + graph_.params[static_cast<size_t>(id)].name, FieldKind::param, "", 0, id);
  }

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  LaunchRecipe recipe_;
  RecipeStep step_;
};

}  // namespace

IntExpr partial_count(const ir::Graph& graph, const PointwiseLaunch& launch) {
  const IntExpr size = ir::extent_expression(graph, graph.base_name(launch.split.name));
  if (launch.split.grouped < 0) return ceil_div(size, launch.chunk);
  // Each group's rows begin a partial.
  const ir::DimId cut_by = graph.dims[static_cast<size_t>(launch.split.grouped)].cut_by;
  const IntExpr groups = ir::extent_expression(graph, {1, cut_by, 1});
  return ceil_div(size + (groups - 1) * (launch.chunk - 1), launch.chunk);
}

IntExpr kept_elements(const ir::Graph& graph, const PointwiseLaunch& launch) {
  IntExpr elements = 1;
  for (int i = 0; i < launch.kept; ++i)
    elements = elements * ir::extent_expression(graph, launch.axes[static_cast<size_t>(i)].name);
  return elements;
}

LaunchRecipe build_pointwise_recipe(const ir::Graph& graph, const KernelPlan& plan) {
  return Writer(graph, plan).run();
}

}  // namespace epifuse::lowering
