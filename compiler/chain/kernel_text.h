// Internal to chain: a kernel being written. Its dimensions, groups, params and constants are those of the kernels that
// it derives from, as far as its tensors and values mention them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/chain/forward_kernel.h"
#include "compiler/chain/spec_text.h"

namespace epifuse::chain {

// Names that are not free. A name that is asked for gets the kernel behind it when it is taken, then a number.
class Names {
 public:
  void take(const std::string& name) { taken_.insert(name); }
  std::string make(const std::string& wish, const std::string& kernel = "");

 private:
  std::set<std::string> taken_;
};

class KernelText {
 public:
  // Params and constants are those of the first origin.
  KernelText(std::string name, std::vector<const ForwardKernel*> origins)
      : name_(std::move(name)), origins_(std::move(origins)) {}

  void comment(const std::string& line) { comments_ += "# " + line + "\n"; }

  // An input that an origin has, by another name where the first origin has one of that name that is something else.
  void input(const ForwardKernel& origin, const ast::In& in) { input(origin, in, in.name.text); }
  void input(const ForwardKernel& origin, const ast::In& in, const std::string& name);
  void input(const std::string& name, const ast::Tensor& tensor, const std::string& default_value = "");
  bool has_input(const std::string& name) const { return inputs_.count(name) != 0; }

  // Writes down a value; `names` as they stand before the '='.
  void value(const std::string& names, const Text& expr);
  // The values of the first origin that the text mentions, and what those are made of. Where `stand_in` says so, an
  // expression is replaced.
  void values_for(ForwardKernel& origin, const Text& text, const Replacement& stand_in = {});

  void output(const std::string& name, const ast::Tensor& tensor, const std::string& assign, const Text& value);
  bool has_outputs() const { return !outputs_.empty(); }
  std::string output_names() const { return output_names_; }  // "dh, dprob"

  std::string text() const;
  // Everything that it mentions: functions and constants of the file among it.
  const std::set<std::string>& mentions() const { return mentions_; }
  const std::string& name() const { return name_; }

 private:
  void mention(const Text& text) { mentions_.insert(text.names.begin(), text.names.end()); }
  std::set<std::string> declared_names() const;

  std::string name_;
  std::vector<const ForwardKernel*> origins_;
  std::string comments_, input_lines_, value_lines_, output_names_;
  std::vector<std::string> outputs_;
  std::set<std::string> inputs_;
  std::set<const ast::Let*> written_;
  std::set<std::string> mentions_;
};

// The text of a statement that only declares: dim (all of it), group, param, const.
Text declaration_text(const ast::Statement& statement);

}  // namespace epifuse::chain
