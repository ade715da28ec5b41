// Which values of an epilogue are computed together. Values that share operations (a gradient's halves share the
// sigmoid) are computed element by element in one loop: computed one behind the other, the assembler would keep what
// they share for a whole block, and spill.
//
// The argument of a hadamard is such a value too; its block is rotated behind the sinks that want it as it is.
#pragma once

#include <vector>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

// Sinks of the same values share their blocks.
struct SinkGroup {
  std::vector<int> values;
  std::vector<const Sink*> sinks;
  std::vector<int> hadamards;  // nodes whose argument is the value, then the only one
};

struct ValueCluster {
  std::vector<int> roots;  // nodes of the epilogue, each once; several share operations
  std::vector<SinkGroup> groups;

  // Whether all roots are computed in one loop (halves of one output too); else each where it is stored.
  bool at_once(const Epilogue& epilogue) const;
  bool rotates() const;  // hadamards
};

// Whether an empty group's values must become zero before they are stored: where the contraction lies in groups, the
// sinks keep the groups, and the value is made of the sum and more than that. A sum over all groups takes what the
// epilogue makes of no terms.
bool zero_when_empty(const KernelPlan& plan, const SinkGroup& group);

// Whether the group is a product that only goes into sums of rows. Its additions are fused with the multiplication,
// under every schedule.
bool sums_products(const KernelPlan& plan, const SinkGroup& group);

// In the order of first use, but those behind that need a hadamard of those before; what shares operations with what it
// is rotated from is computed anew. The epilogue must outlive the result.
std::vector<ValueCluster> value_clusters(const Epilogue& epilogue);

// For each cluster, how many rotated blocks lie in registers beside its own values: made before it, they are needed
// behind it, or in it together with accumulators. Others are replaced by its values.
std::vector<int> waiting_blocks(const Epilogue& epilogue, const std::vector<ValueCluster>& clusters);

}  // namespace epifuse::lowering
