#include "compiler/lowering/plan_quantised.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"

namespace epifuse::lowering {
namespace {

constexpr int64_t tile_of_scales = 128, scales_of_tile = 4;  // blocked_128x4: outer indices by blocks
constexpr int meeting_bytes = 512;
constexpr int scratch_alignment = 16;

const ir::Tensor& tensor_of(const ir::Graph& graph, const Sink& sink) {
  return graph.outputs[static_cast<size_t>(sink.output)].tensor;
}

int code_bits(const ir::Tensor& tensor) { return storage_bits(tensor.type.storage()); }

// Rows that a whole number of the layout's units has: one block, one tile of scales, or what the pitch is a multiple
// of.
int64_t rows_of_unit(const Gemm& gemm, const ir::TensorType& type, const Quantised& blocks) {
  switch (type.layout) {
    case ir::ScaleLayout::rows: return 1;
    case ir::ScaleLayout::columns_tma:
      // Grouped rows are written as far as they exist.
      return blocks.transposed || gemm.form == GemmForm::ragged_rows ? 1 : 4 * blocks.block_rows;
    case ir::ScaleLayout::blocked_128x4:
      return (blocks.along_rows ? scales_of_tile : tile_of_scales) * blocks.block_rows;
  }
  return 1;
}

// Blocks of several columns must not lie across halves, nor across the pieces they are dealt out in.
std::string refuse_columns(const Gemm& gemm, Quantised& blocks) {
  const int64_t width = blocks.block_columns;
  // Neighbours in a row of codes would have scales of two values.
  if (width == 1)
    return gemm.piece == 1 && !blocks.transposed ? "blocks over rows of columns dealt out one by one" : "";
  if (gemm.piece == 1 || gemm.piece == 8) {
    blocks.joined = true;
    return "";
  }
  // 64 columns of each half, by turns.
  if (blocks.wide() && gemm.piece != 0 && tile_rows % (2 * gemm.piece) == 0) {
    blocks.shared_by_halves = true;
    return "";
  }
  if (gemm.piece % width != 0)
    return fmt::format("blocks of {} over columns dealt out in pieces of {}", width, gemm.piece);
  if (gemm.part_columns % width != 0) return fmt::format("blocks of {} that lie across both halves", width);
  return "";
}

}  // namespace

bool has_leading_matrices(const Gemm& gemm) {
  return gemm.form == GemmForm::batched || gemm.form == GemmForm::ragged_depth;
}

std::string place_blocks(const Gemm& gemm, const ir::Output& output, bool transposed, bool is_doubled,
                         const Place& place, Sink& sink) {
  const ir::Tensor& tensor = output.tensor;
  const ir::FormatInfo& info = ir::format_info(tensor.type.format);
  const int last = static_cast<int>(tensor.shape.size()) - 1;
  Quantised& blocks = sink.quantised;
  blocks.transposed = transposed;
  blocks.along_rows = (tensor.type.along_axis < 0 || tensor.type.along_axis == last) == transposed;
  blocks.block_rows = blocks.along_rows ? info.block_columns : info.block_rows;
  blocks.block_columns = blocks.along_rows ? info.block_rows : info.block_columns;

  const std::string name = "an output of type " + ir::print_type(tensor.type);
  if (sink.pointers) return name + " with one buffer for each group";
  if (is_doubled)
    if (const std::string what = refuse_columns(gemm, blocks); !what.empty()) return what;
  if (transposed && code_bits(tensor) == 4 && place.alignment % 2 != 0 && gemm.form == GemmForm::ragged_rows)
    return name + " whose groups may begin within a byte";
  if (!scale_place(gemm, output, sink, place))
    return has_leading_matrices(gemm) ? name + " for each group"
                                      : fmt::format("{} whose groups begin at multiples of {}", name, place.alignment);
  return "";
}

std::optional<Place> scale_place(const Gemm& gemm, const ir::Output& output, const Sink& sink, const Place& place) {
  const int64_t unit = rows_of_unit(gemm, output.tensor.type, sink.quantised);
  if (has_leading_matrices(gemm)) {
    // The walk over results of groups has no tiles for gaps of more rows than a tile.
    if (gemm.form == GemmForm::ragged_depth && tile_rows % unit != 0) return std::nullopt;
    return Place{gemm.rows.dim, unit, true};
  }
  if (unit == 1 || place.alignment % unit == 0) return place;
  if (unit % place.alignment == 0) return Place{gemm.rows.dim, unit};
  return std::nullopt;
}

int scale_columns(const KernelPlan& plan, const Sink& sink) {
  if (sink.quantised.wide()) return sink.quantised.block_columns;
  return plan.part_tile() * (sink.quantised.joined ? 2 : 1);
}

bool place_scales(const ir::Graph& graph, KernelPlan& plan, std::string& why) {
  auto take = [&](int bytes) {
    const int at = (plan.scratch_bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
    plan.scratch_bytes = at + bytes;
    return at;
  };
  for (Sink& sink : plan.epilogue.sinks) {
    if (sink.kind != SinkKind::quantised) continue;
    Quantised& blocks = sink.quantised;
    const int values = blocks.scale_tiles(sink.values.size());
    const int shared_tile = plan.part_tile() * plan.schedule.slices();
    // Columns of a part that make one block.
    const int wanted = blocks.of_both_halves() ? blocks.block_columns / 2 : blocks.block_columns;
    if (blocks.wide() && shared_tile != wanted && plan.part_tile() != wanted) {
      why = fmt::format("a tile of {} columns is not one block of {}", shared_tile, wanted);
      return false;
    }
    blocks.exchanged = blocks.wide() && plan.part_tile() != wanted;
    sink.scratch = take(values * scale_tile_bytes(graph, plan, sink));
    if (blocks.meets(plan.natural_rows())) blocks.meeting = take(values * meeting_region_bytes(plan, sink));
  }
  plan.scratch_bytes = (plan.scratch_bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  return true;
}

int scale_tile_bytes(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  const Quantised& blocks = sink.quantised;
  const int columns = (scale_columns(plan, sink) + blocks.block_columns - 1) / blocks.block_columns;
  const int code = storage_bits(ir::format_info(tensor_of(graph, sink).type.format).scale) / 8;
  return (tile_rows / blocks.block_rows * columns * code + scratch_alignment - 1) / scratch_alignment *
         scratch_alignment;
}

int meeting_region_bytes(const KernelPlan& plan, const Sink& sink) {
  if (sink.quantised.wide()) return meeting_bytes;
  return (plan.natural_rows() ? 2 : 1) * meeting_bytes * (scale_columns(plan, sink) / block_columns);
}

IntExpr scale_pitch(const ir::Graph& graph, const Sink& sink) {
  const ir::Tensor& tensor = tensor_of(graph, sink);
  const Quantised& blocks = sink.quantised;
  const size_t rank = tensor.shape.size();
  const ir::Extent& rows = tensor.shape[blocks.transposed ? rank - 1 : rank - 2];
  const ir::Extent& columns = tensor.shape[blocks.transposed ? rank - 2 : rank - 1];
  const IntExpr row_blocks = ceil_div(ir::extent_expression(graph, rows), blocks.block_rows);
  const IntExpr column_blocks = ceil_div(ir::extent_expression(graph, columns), blocks.block_columns);
  switch (tensor.type.layout) {
    case ir::ScaleLayout::rows: return blocks.transposed ? row_blocks : column_blocks;
    case ir::ScaleLayout::columns_tma: return round_up(blocks.transposed ? column_blocks : row_blocks, 4);
    case ir::ScaleLayout::blocked_128x4:
      return ceil_div(column_blocks, blocks.along_rows ? tile_of_scales : scales_of_tile);
  }
  return 1;
}

IntExpr scale_group_stride(const ir::Graph& graph, const Sink& sink) {
  const std::string name = tensor_of(graph, sink).name + ".scale";
  for (const ir::Buffer& buffer : ir::buffers(graph)) {
    if (buffer.name != name) continue;
    IntExpr stride = 1;
    for (size_t axis = 1; axis < buffer.extents.size(); ++axis) stride = stride * buffer.extents[axis];
    return stride;
  }
  EPIFUSE_ENSURE(false, "a scaled output without a buffer of scales");
  return 0;
}

}  // namespace epifuse::lowering
