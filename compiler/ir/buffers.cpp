// Extents of data follow from shapes; those of scales also from block sizes, layout and groups (docs/language.md
// S5-S7).
#include "compiler/ir/buffers.h"

#include <algorithm>
#include <fmt/format.h>

namespace epifuse::ir {
namespace {

// The grouped dimension that an extent runs over, itself or through an aligned one; -1: none.
DimId grouped_dim(const Graph& graph, const Extent& extent) {
  if (extent.dim < 0) return -1;
  const Dimension& dim = graph.dims[extent.dim];
  if (dim.kind == DimKind::aligned) return dim.base;
  return dim.kind == DimKind::grouped ? extent.dim : -1;
}

// The tiles that cover an extent of `size` elements, `unit` each. In a grouped dimension each group begins a new one:
// the most that groups of any sizes need.
IntExpr tile_count(const Graph& graph, const Extent& extent, const IntExpr& size, int64_t unit) {
  const DimId grouped = grouped_dim(graph, extent);
  if (grouped < 0) return ceil_div(size, unit);
  const int64_t align = graph.dims[extent.dim].align;
  if (align % unit == 0) return ceil_div(size, unit);
  const IntExpr groups = extent_expression(graph, {1, graph.dims[grouped].cut_by, 1});
  // A gap that fills up part of a tile adds none, so where alignment divides the tile the tokens alone count.
  const IntExpr tokens = unit % align == 0 ? extent_expression(graph, {1, grouped, 1}) : size;
  return ceil_div(tokens + (groups - 1) * (unit - 1), unit);
}

class BufferLister {
 public:
  explicit BufferLister(const Graph& graph) : graph_(graph) {}

  std::vector<Buffer> run() {
    for (const Input& input : graph_.inputs)
      if (!input.left_out) tensor(input.tensor, TensorRole::input, input.default_value.has_value());
    for (DimId dim = 0; dim < static_cast<DimId>(graph_.dims.size()); ++dim)
      if (graph_.dims[dim].kind == DimKind::grouped && is_used(dim)) group_sizes(dim);
    for (const Output& output : graph_.outputs)
      if (!output.left_out) tensor(output.tensor, TensorRole::output, true);
    return std::move(list_);
  }

 private:
  bool is_used(DimId grouped) const {
    const auto in_tensor = [&](const Tensor& tensor) {
      return std::any_of(tensor.shape.begin(), tensor.shape.end(),
                         [&](const Extent& e) { return grouped_dim(graph_, e) == grouped; });
    };
    return std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                       [&](const Input& i) { return in_tensor(i.tensor); }) ||
           std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const Output& o) {
             if (o.left_out) return false;
             const Node& value = graph_.nodes[o.value];
             return in_tensor(o.tensor) ||
                    (value.op == Op::group_ends && graph_.base_name({1, value.dim, 1}).dim == grouped);
           });
  }

  void group_sizes(DimId id) {
    const Dimension& dim = graph_.dims[id];
    Buffer info;
    info.name = group_sizes_name(graph_, id);
    info.tensor = dim.name;
    info.role = TensorRole::group_sizes;
    info.storage = dim.sizes_storage;
    info.extents = {extent_expression(graph_, {1, dim.cut_by, 1})};
    list_.push_back(std::move(info));
  }

  void tensor(const Tensor& tensor, TensorRole role, bool optional) {
    Buffer info;
    info.name = tensor.name;
    info.role = role;
    info.storage = tensor.type.storage();
    for (const Extent& extent : tensor.shape) info.extents.push_back(extent_expression(graph_, extent));
    info.pointer_axes = tensor.pointer_axes;
    info.tensor = tensor.name;
    info.optional = optional;
    list_.push_back(info);
    if (!tensor.type.scaled()) return;
    info.name += ".scale";
    info.storage = format_info(tensor.type.format).scale;
    info.extents = scale_extents(graph_, tensor, info.extents);
    info.is_scale = true;
    list_.push_back(std::move(info));
  }

  const Graph& graph_;
  std::vector<Buffer> list_;
};

}  // namespace

std::vector<IntExpr> scale_extents(const Graph& graph, const Tensor& tensor, const std::vector<IntExpr>& data) {
  const FormatInfo& format = format_info(tensor.type.format);
  const size_t rank = data.size();
  const auto along = static_cast<size_t>(along_axis(tensor.type, static_cast<int>(rank)));
  // Only looked at where there are two dimensions.
  const auto across = static_cast<size_t>(across_axis(tensor.type, static_cast<int>(rank)));
  std::vector<IntExpr> extents = data;
  extents[along] = ceil_div(data[along], format.block_columns);
  if (format.block_rows > 1) extents[across] = ceil_div(data[across], format.block_rows);
  switch (tensor.type.layout) {
    case ScaleLayout::rows: return extents;
    case ScaleLayout::columns_tma:
      std::swap(extents[rank - 2], extents[rank - 1]);
      extents[rank - 1] = round_up(extents[rank - 1], columns_tma_pitch);
      return extents;
    case ScaleLayout::blocked_128x4: break;
  }
  std::vector<IntExpr> tiles(data.begin(), data.end() - 2);
  const IntExpr rows = tile_count(graph, tensor.shape[across], data[across], scale_tile_rows * format.block_rows);
  const IntExpr columns =
      tile_count(graph, tensor.shape[along], data[along], scale_tile_columns * format.block_columns);
  const bool tokens_along = grouped_dim(graph, tensor.shape[along]) >= 0;
  tiles.push_back(tokens_along ? columns : rows);
  tiles.push_back(tokens_along ? rows : columns);
  tiles.emplace_back(scale_tile_bytes);
  return tiles;
}

Result<std::vector<int64_t>> scale_extents(const Graph& graph, const Tensor& tensor, const std::vector<int64_t>& data,
                                           const IntExpr::Lookup& sizes) {
  std::vector<int64_t> numbers;
  for (const IntExpr& extent : scale_extents(graph, tensor, std::vector<IntExpr>(data.begin(), data.end()))) {
    const Result<int64_t> number = extent.evaluate(sizes);
    if (!number) return number.error();
    numbers.push_back(*number);
  }
  return numbers;
}

IntExpr extent_expression(const Graph& graph, const Extent& extent) {
  if (extent.dim < 0) return extent.times;
  const Dimension& dim = graph.dims[extent.dim];
  if (dim.kind == DimKind::aligned) {
    // round_up(x - (A-1), A) is x rounded down to A.
    const Dimension& base = graph.dims[dim.base];
    const IntExpr groups = extent_expression(graph, {1, base.cut_by, 1});
    return round_up(IntExpr::symbol(base.name) + (groups - 1) * (dim.align - 1), dim.align);
  }
  IntExpr value = IntExpr::symbol(dim.name);
  if (extent.times != 1) value = extent.times * value;
  return extent.over == 1 ? value : exact_div(value, extent.over);
}

std::string slots_fault(const Graph& graph, const Dimension& dim, int64_t groups, int64_t unit) {
  if (!dim.slot) return "";
  const __int128 rows = static_cast<__int128>(unit) * dim.slot->times / dim.slot->over;
  if (rows <= most_integer32 / std::max<int64_t>(1, groups)) return "";
  return fmt::format("{} slots of {} for '{}' are more rows than the {} that a kernel takes", groups,
                     graph.extent_text(*dim.slot), dim.name, most_integer32);
}

std::string group_sizes_name(const Graph& graph, DimId grouped) {
  const Dimension& dim = graph.dims[grouped];
  return dim.name + (dim.sizes == GroupSizes::ends ? ".ends" : ".counts");
}

std::vector<Buffer> buffers(const Graph& graph) { return BufferLister(graph).run(); }

}  // namespace epifuse::ir
