#include "compiler/lowering/kernel_plan.h"

#include <algorithm>

#include "base/ensure.h"

namespace epifuse::lowering {

bool is_ragged(const ir::Graph& graph, const Gemm& gemm) {
  const ir::DimId dim = grouped_extent(gemm).dim;
  return gemm.grouped() && dim >= 0 && graph.dims[static_cast<size_t>(dim)].kind == ir::DimKind::grouped;
}

bool in_slots(const ir::Graph& graph, const Gemm& gemm) {
  return is_ragged(graph, gemm) && graph.dims[static_cast<size_t>(grouped_extent(gemm).dim)].slot.has_value();
}

int64_t group_alignment(const ir::Graph& graph, const Gemm& gemm) {
  return is_ragged(graph, gemm) ? graph.dims[static_cast<size_t>(grouped_extent(gemm).dim)].align : 1;
}

Deal deal_of(const Gemm& gemm) {
  if (gemm.piece == 0) return Deal::halves;
  if (gemm.piece == 1) return Deal::alternating;
  if (gemm.piece == 8) return Deal::eights;
  if (gemm.piece == block_columns) return Deal::blocks;
  return Deal::pieces;
}

bool has_wide_blocks(const Epilogue& epilogue) {
  return std::any_of(epilogue.sinks.begin(), epilogue.sinks.end(),
                     [](const Sink& sink) { return sink.kind == SinkKind::quantised && sink.quantised.wide(); });
}

bool uses_sums(const Epilogue& epilogue, const Sink& sink) {
  std::vector<bool> needed(epilogue.nodes.size());
  for (const int value : sink.values) needed[static_cast<size_t>(value)] = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const EpilogueNode& node = epilogue.nodes[i];
    if (node.kind == EpilogueNode::Kind::accumulator) return true;
    for (const int argument : node.args) needed[static_cast<size_t>(argument)] = true;
  }
  return false;
}

void gather_scales(KernelPlan& plan) {
  const int blocks = plan.part_tile() / block_columns;
  plan.scratch_bytes = 0;
  for (Sink& sink : plan.epilogue.sinks) {
    sink.gathered_scales = 1;
    if (sink.kind == SinkKind::mx_rows) {
      // The pitch is the number of blocks in a row; a half of a doubled output begins at a multiple of its own blocks.
      const int64_t row_blocks = plan.ragged_columns ? 1 : plan.gemm.part_columns / block_columns;
      const bool dealt = sink.values.size() == 2 && plan.deal != Deal::halves;
      // Of four blocks, two pairs cost more stores than four that are joined behind the last of them.
      for (const int width : {4, 2})
        if (!dealt && blocks % width == 0 && row_blocks % width == 0 && (width == 4 || blocks != 4)) {
          sink.gathered_scales = width;
          break;
        }
    } else if (sink.kind == SinkKind::mx_transposed && sink.place != 0 &&
               plan.places[static_cast<size_t>(sink.place)].alignment % tile_rows == 0) {
      sink.gathered_scales = 4;
      sink.scratch = plan.scratch_bytes;
      plan.scratch_bytes += static_cast<int>(sink.values.size()) * plan.part_tile() * 4;
    }
  }
}

// The input of half 1 is read out of the box of half 0, where that is an input of the plan too.
bool KernelPlan::brings_box(const EpilogueInput& in) const {
  if (!alternates(in) || in.part == 0) return true;
  return std::none_of(epilogue.inputs.begin(), epilogue.inputs.end(), [&](const EpilogueInput& other) {
    return other.input == in.input && other.broadcast == in.broadcast && other.part == 0;
  });
}

void KernelPlan::add_region(std::string name, IntExpr bytes) {
  const IntExpr offset = workspace.empty() ? IntExpr(0) : workspace.back().offset + workspace.back().bytes;
  workspace.push_back({std::move(name), offset, round_up(bytes, workspace_alignment)});
}

const WorkspaceRegion& KernelPlan::region(std::string_view name) const {
  const auto found =
      std::find_if(workspace.begin(), workspace.end(), [&](const WorkspaceRegion& r) { return r.name == name; });
  EPIFUSE_ENSURE(found != workspace.end(), "a region of the workspace that was not planned");
  return *found;
}

}  // namespace epifuse::lowering
