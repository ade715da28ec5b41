// Internal to chain: which expressions of a kernel are the same value. Names of values stand for what they were defined
// as; calls of functions are not looked into.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/parser/ast.h"

namespace epifuse::chain {

using ValueId = int;

class Values {
 public:
  // The kernel must outlive it, and be free of mistakes.
  explicit Values(const ast::Kernel& kernel);

  ValueId of(const ast::Expr& expr);
  ValueId of_name(const std::string& name);  // of an input, a param, a constant or a value

  // The statement that defines a name; null when it is no value of the kernel.
  const ast::Let* definition(const std::string& name) const;

  // Whether `from` is computed from `to`, on some way that does not lead through `through`.
  bool depends(ValueId from, ValueId to, const std::set<ValueId>& through = {}) const;

 private:
  ValueId intern(std::string key, std::vector<ValueId> args);

  std::map<std::string, ValueId> known_;
  std::vector<std::vector<ValueId>> args_;
  std::map<std::string, ValueId> names_;
  std::map<std::string, const ast::Let*> definitions_;
};

}  // namespace epifuse::chain
