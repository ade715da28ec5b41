#include "compiler/lowering/column_order.h"

#include <algorithm>

namespace epifuse::lowering {
namespace {

bool rotates(const Epilogue& epilogue) {
  return std::any_of(epilogue.nodes.begin(), epilogue.nodes.end(),
                     [](const EpilogueNode& node) { return node.kind == EpilogueNode::Kind::hadamard; });
}

bool takes_natural(const KernelPlan& plan, const Sink& sink) {
  // Backward kernels with transposed codes and full-tile inputs were slower in natural order; which of the two is why
  // has not been told apart, and neither is taken.
  if (sink.kind == SinkKind::quantised || sink.kind == SinkKind::mx_transposed || alternates(plan, sink)) return false;
  return sink.kind != SinkKind::rows || !sink.accumulate;  // old values are read eight by eight
}

// Full-tile inputs are read eight neighbours at once.
bool takes_natural(const KernelPlan& plan, const EpilogueInput& in) {
  if (in.broadcast == Broadcast::column) return !(in.doubled && plan.deal == Deal::alternating);
  return in.broadcast != Broadcast::tile;
}

}  // namespace

bool alternates(const KernelPlan& plan, const Sink& sink) {
  if (sink.values.size() != 2) return false;
  if (sink.kind == SinkKind::quantised) return sink.quantised.joined;
  return (plan.deal == Deal::alternating && sink.kind == SinkKind::rows) ||
         ((plan.deal == Deal::alternating || plan.deal == Deal::eights) && sink.kind == SinkKind::mx_rows);
}

bool works_in_natural_columns(const KernelPlan& plan) {
  const Epilogue& epilogue = plan.epilogue;
  if (!plan.natural_columns() || plan.interleaved_weight() || plan.ragged_columns || rotates(epilogue)) return false;
  return std::all_of(epilogue.inputs.begin(), epilogue.inputs.end(),
                     [&](const EpilogueInput& in) { return takes_natural(plan, in); }) &&
         std::all_of(epilogue.sinks.begin(), epilogue.sinks.end(),
                     [&](const Sink& sink) { return takes_natural(plan, sink); });
}

bool stores_halves_together(const KernelPlan& plan) {
  return std::any_of(plan.epilogue.sinks.begin(), plan.epilogue.sinks.end(),
                     [&](const Sink& sink) { return alternates(plan, sink); });
}

bool works_block_by_block(const KernelPlan& plan) {
  const Epilogue& epilogue = plan.epilogue;
  return plan.schedule.family == Family::gemm && !plan.interleaved_weight() && !rotates(epilogue) &&
         std::none_of(epilogue.sinks.begin(), epilogue.sinks.end(),
                      [](const Sink& sink) { return sink.kind == SinkKind::quantised; });
}

}  // namespace epifuse::lowering
