// Internal to chain: the kernels of a chain with what the backward pass needs to know of each, and of its neighbours.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/chain/forward_kernel.h"
#include "compiler/chain/kernel_text.h"
#include "compiler/chain/saved_values.h"

namespace epifuse::chain {

struct Link {
  ForwardKernel kernel;
  const ast::Out* y = nullptr;  // what the next kernel reads, or the result of the chain
  ir::Shape y_shape;
  SavedValues saved;

  // What the weight gradient reads as the products' data: their input itself, or, where that is quantised, an output of
  // the kernel before that holds the same plainly.
  std::string data_name;
  ast::Tensor data;

  std::string dy;                       // the gradient of y
  std::vector<std::string> dp;          // of each product
  std::vector<ast::Tensor> dp_tensors;  // as they are stored: operands of gemms
  bool dp_is_dy = false;                // nothing lies between
  std::vector<std::string> d_saved;     // of each saved value: dp where that is the product with additions alone

  std::string saved_names() const;  // "gate, up"

  // The type in which a gradient is stored that is an operand of this kernel's backward gemms: that of the forward's
  // own operand, since a gemm has one type, whatever `pre` or the result is kept as.
  std::string operand_type() const;

  // The gradient of y as the backward pass is given it: stored as y is, where that is no quantised form and no gemm
  // reads dy itself.
  ast::Tensor dy_tensor() const;
};

// Reads the kernels and matches them; everything that stands in the way of a derivation is reported here. `names` gets
// every name that is taken.
std::optional<std::vector<Link>> link_chain(const Program& program, const std::vector<std::string>& kernels,
                                            Names& names, Diagnostics& diagnostics);

}  // namespace epifuse::chain
