// Internal to chain: where in a forward kernel the backward pass begins. Between the value that the chain goes on with
// and the products lie the saved values: the backward pass reads them in place of the products, and behind them nothing
// else of the products is needed.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/chain/forward_kernel.h"
#include "compiler/chain/linear.h"

namespace epifuse::chain {

// One of a product's values, linear in it, that an output keeps.
struct SavedValue {
  ValueId value = -1;
  Linear linear;       // the value, in terms of the product
  std::string output;  // its name; empty while it is not stored
  ast::Tensor tensor;  // of the output
  std::string named;   // the value's name in the kernel; empty: it has none
};

struct SavedValues {
  // The value itself is linear in the only product: nothing needs to be saved, and `values` holds it.
  bool none_needed = false;
  // The forward kernel does not keep them yet.
  bool missing = false;
  std::vector<SavedValue> values;  // one for each product
};

// `y` is the value that the chain goes on with.
SavedValues find_saved_values(ForwardKernel& kernel, const ast::Expr& y);

// Whether a gradient by the input has to pass one of these terms.
bool mentions(ForwardKernel& kernel, const Text& text, const ast::In& input);

}  // namespace epifuse::chain
