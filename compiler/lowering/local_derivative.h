// The derivatives of the pointwise operations (language.md V5).
#pragma once

#include <optional>

#include "compiler/lowering/derivative_terms.h"

namespace epifuse::lowering {

// d node / d argument `index` of a pointwise operation: one product, under a mask where a branch decides. Nothing where
// it is 0 everywhere. `both` says that the gradient of every argument is asked for: min and max then compare once.
//
// At a kink the derivative is that of the argument chosen, the first on ties. Where a comparison sees NaN, the gradient
// passes, so that the NaN is not lost.
std::optional<Term> local_derivative(NodeBuilder& nodes, ir::NodeId id, size_t index, bool both);

}  // namespace epifuse::lowering
