// Outputs of scaled types behind a tile of rows and columns: how their blocks lie, what the templates
// (epilogue/block_scales.cuh, quantise.cuh, scale_layout.cuh) cannot do and is refused by name, where a tile's scales
// wait in shared memory, and what the parameter block says of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Fills in how the blocks of an output lie. sink: placed among rows and columns; transposed: rows are the output's last
// dimension. is_doubled: it lies over the columns of both halves. Gives what of it is not lowered, in words that follow
// "… is not lowered yet", or an empty string.
std::string place_blocks(const Gemm& gemm, const ir::Output& output, bool transposed, bool is_doubled,
                         const Place& place, Sink& sink);

// The place in which the scales of a quantised output count rows: that of its codes, or one whose groups begin with
// whole tiles of scales. Nothing if the groups' alignment fits no such tiles.
std::optional<Place> scale_place(const Gemm& gemm, const ir::Output& output, const Sink& sink, const Place& place);

// Whether the tile of a schedule has whole blocks of all quantised outputs; if so, their scratch is laid out behind
// what is there. why: what does not fit.
bool place_scales(const ir::Graph& graph, KernelPlan& plan, std::string& why);

// Columns of a tile's part as a quantised sink sees them, and the bytes of the scratch of one value: its scales, and
// where maxima meet.
int scale_columns(const KernelPlan& plan, const Sink& sink);
int scale_tile_bytes(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink);
int meeting_region_bytes(const KernelPlan& plan, const Sink& sink);

// Elements of `y.scale` from a row, a column or (blocked_128x4) a row of tiles to the next; and from the matrix of a
// group or batch to the next.
IntExpr scale_pitch(const ir::Graph& graph, const Sink& sink);
IntExpr scale_group_stride(const ir::Graph& graph, const Sink& sink);

// Batches and results of groups have a leading dimension of their own.
bool has_leading_matrices(const Gemm& gemm);

}  // namespace epifuse::lowering
