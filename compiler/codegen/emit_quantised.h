// The text of sinks that quantise (SinkKind::quantised): what they need around the loop over blocks, inside it, and in
// the pass that measures blocks as wide as the tile. Each ends in a newline, or is empty.
#pragma once

#include <functional>
#include <string>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// Headers of the formats and pieces that the plan's sinks name, and the formats' names.
std::string quantised_includes(const ir::Graph& graph, const lowering::KernelPlan& plan);
std::string quantised_formats(const ir::Graph& graph, const lowering::KernelPlan& plan);

// Before the loops. maximum: the expression of a sink's largest magnitude of the tensor, where it has one.
std::string open_quantised(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink,
                           const std::string& maximum);

// In the pass over blocks that measures, and behind it. Only of wide blocks.
std::string measure_quantised(const ir::Graph& graph, const lowering::Sink& sink, int part, const std::string& value);
std::string close_measuring(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink);

// A block: the codes of `value<part>`, or of both where they are joined. column: where the thread's columns lie in the
// output, and step, how far apart; guard: what stands in front of a store.
struct QuantisedBlock {
  int part = 0;
  std::string column;
  std::string matrix_column;  // … in the matrix of a group or batch
  int step = 1;
  bool whole = false;  // four rows of a column at once
};
std::string put_quantised(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink,
                          const QuantisedBlock& block);

// Behind the loop and a barrier: the tile's scales go to memory. column_of(part, "column"): as in emit_reductions.h.
std::string flush_quantised(const ir::Graph& graph, const lowering::KernelPlan& plan, const lowering::Sink& sink,
                            const std::function<std::string(int, std::string_view)>& column_of);

}  // namespace epifuse::codegen
