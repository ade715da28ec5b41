// Derivatives while they are being put together: sums of products that become nodes only when they are used, so that
// numbers combine, products that the forward pass has are taken from it, and masks end up outermost.
//
// A mask is never a factor: 0 times infinity or NaN is NaN, where the branch that was not taken must count nothing.
#pragma once

#include <vector>

#include "compiler/lowering/node_builder.h"

namespace epifuse::lowering {

// A term counts only where the condition is not 0 (`taken`), or only where it is 0.
struct Mask {
  ir::NodeId condition = -1;
  bool taken = true;
  bool operator==(const Mask&) const = default;
};

// coefficient * step * step / step …, where all masks let it pass.
struct Term {
  struct Step {
    ir::NodeId value = -1;
    bool divides = false;
    bool operator==(const Step&) const = default;
  };
  double coefficient = 1;
  std::vector<Step> steps;
  std::vector<Mask> masks;
};

// Several terms: their sum.
using Terms = std::vector<Term>;

// The steps of `a` first: what starts alike is computed once.
Term product(NodeBuilder& nodes, const Term& a, const Term& b);

// The same sum in as few terms as can be: terms under equal masks become one, and two under opposite masks a choice.
// More than one is left only if some are masked.
Terms combine(NodeBuilder& nodes, Terms terms);

// The value of a sum; 0 for none.
ir::NodeId build(NodeBuilder& nodes, const Terms& terms);

}  // namespace epifuse::lowering
