// Internal to chain: from the gradient of a kernel's y to those of its products, of its bias, probability and scales.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/chain/link_chain.h"

namespace epifuse::chain {

// A gradient that a kernel of the backward pass has written, or that it was given.
struct StoredGradient {
  std::string name;
  ast::Tensor tensor;
};

// What the gradients of inputs are called. A value of each row that several kernels of the chain have by one name is
// one input, whose gradient they add up; weights and biases are each kernel's own.
class InputGradients {
 public:
  InputGradients(const std::vector<Link>& links, Names& names);

  std::string name(const Link& link, const ast::In& input);
  std::string part(const Link& link, const ast::In& input, const std::string& of);  // a new name, for one summand
  bool mark_written(const Link& link, const ast::In& input);                        // whether it was already

  // Whether other kernels of the chain have the input, too.
  bool has_several_parts(const Link& link, const ast::In& input) const;

  // Where the gradient of an epilogue's input is to be found.
  void store(const Link& link, const ast::In& input, StoredGradient gradient);
  // What the epilogues gave to the tensor that the chain starts from; nothing when none reads it.
  std::optional<StoredGradient> stored_for_start(const ast::In& start) const;

 private:
  static std::string key(const Link& link, const ast::In& input);
  static std::string shared_key(const ast::In& input);

  Names& names_;
  // Of each input's name, and how many kernels have it; several: the kernel is in the gradient's name.
  std::map<std::string, std::map<std::string, int>> keys_;
  std::map<std::string, StoredGradient> stored_;
  std::map<std::string, std::string> known_;
  std::set<std::string> written_;
};

// Writes the values and outputs into `text`. `seed` is the gradient of y: a gemm, or the name of an input of `text`
// (`seed_is_input`). Needs link.saved to be stored by the forward kernel.
void write_backward_epilogue(KernelText& text, Link& link, const Text& seed, bool seed_is_input,
                             InputGradients& gradients);

}  // namespace epifuse::chain
