#include "compiler/ir/buffers.h"

#include "base/ensure.h"

namespace epifuse::ir {
namespace {

const Dimension& dim(const Graph& graph, DimId id) { return graph.dims[static_cast<size_t>(id)]; }

IntExpr capacity(const Graph& graph, DimId id) {
  const Dimension& d = dim(graph, id);
  if (d.kind != DimKind::aligned) return IntExpr::symbol(d.name);
  // round_down(x, A) is round_up(x - (A - 1), A).
  const IntExpr groups = IntExpr::symbol(dim(graph, dim(graph, d.base).cut_by).name);
  return round_up(IntExpr::symbol(dim(graph, d.base).name) + (groups - 1) * (d.align - 1), d.align);
}

// True when the axis's rows come in groups, whose scale tiles must not be shared.
const Dimension* grouped_dimension(const Graph& graph, const Extent& extent) {
  if (extent.dim < 0) return nullptr;
  const Dimension& d = dim(graph, extent.dim);
  return d.kind == DimKind::grouped || d.kind == DimKind::aligned ? &d : nullptr;
}

// Tiles of 128 rows that `extent` rows can occupy when each group starts a tile of its own.
IntExpr row_tiles(const Graph& graph, const Extent& extent) {
  const IntExpr rows = extent_expression(graph, extent);
  const Dimension* grouped = grouped_dimension(graph, extent);
  if (!grouped || (grouped->align % 128 == 0)) return ceil_div(rows, 128);
  const DimId cut_by = grouped->kind == DimKind::aligned ? dim(graph, grouped->base).cut_by : grouped->cut_by;
  return ceil_div(rows + IntExpr::symbol(dim(graph, cut_by).name) * 127 - 127, 128);
}

}  // namespace

IntExpr extent_expression(const Graph& graph, const Extent& extent) {
  if (extent.dim < 0) return extent.times;
  return exact_div(capacity(graph, extent.dim) * extent.times, extent.over);
}

std::vector<IntExpr> scale_extents(const Graph& graph, const Tensor& tensor) {
  const FormatInfo& info = format_info(tensor.type.format);
  const size_t rank = tensor.shape.size();
  EPIFUSE_ENSURE(info.scaled && rank >= 1, "scale_extents of a plain tensor");
  const size_t along = tensor.type.along_axis < 0 ? rank - 1 : static_cast<size_t>(tensor.type.along_axis);
  // The other blocked axis of a square block is its neighbour in memory.
  const size_t across = along == 0 ? 1 : along - 1;
  std::vector<IntExpr> extents;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int block = axis == along ? info.block_columns : axis == across && rank > 1 ? info.block_rows : 1;
    extents.push_back(ceil_div(extent_expression(graph, tensor.shape[axis]), block));
  }
  if (tensor.type.layout == ScaleLayout::columns_tma && rank >= 2) {
    std::swap(extents[rank - 1], extents[rank - 2]);
    extents[rank - 1] = round_up(extents[rank - 1], 4);
  } else if (tensor.type.layout == ScaleLayout::blocked_128x4) {
    const size_t outer = along == rank - 1 ? rank - 2 : rank - 1;
    IntExpr bytes = row_tiles(graph, tensor.shape[outer]) * ceil_div(extents[along], 4) * 512;
    for (size_t axis = 0; axis < rank; ++axis)
      if (axis != along && axis != outer) bytes = bytes * extents[axis];
    extents = {bytes};
  }
  return extents;
}

std::string group_sizes_name(const Graph& graph, DimId grouped) {
  const Dimension& d = dim(graph, grouped);
  return d.name + (d.sizes == GroupSizes::ends ? ".ends" : ".counts");
}

std::vector<Buffer> buffers(const Graph& graph) {
  std::vector<Buffer> list;
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const Dimension& d = graph.dims[i];
    if (d.kind != DimKind::grouped) continue;
    list.push_back({group_sizes_name(graph, static_cast<DimId>(i)), d.name, d.sizes_storage, TensorRole::group_sizes,
                    {IntExpr::symbol(dim(graph, d.cut_by).name)}, false});
  }
  auto add = [&](const Tensor& tensor, TensorRole role, bool optional) {
    std::vector<IntExpr> extents;
    for (const Extent& extent : tensor.shape) extents.push_back(extent_expression(graph, extent));
    list.push_back({tensor.name, tensor.name, tensor.type.storage(), role, std::move(extents), optional});
    if (!tensor.type.scaled()) return;
    list.push_back({tensor.name + ".scale", tensor.name, format_info(tensor.type.format).scale, role,
                    scale_extents(graph, tensor), optional});
  };
  for (const Input& input : graph.inputs)
    if (!input.left_out) add(input.tensor, TensorRole::input, input.default_value.has_value());
  for (const Output& output : graph.outputs)
    if (!output.left_out) add(output.tensor, TensorRole::output, true);
  return list;
}

}  // namespace epifuse::ir
