#include "compiler/chain/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::chain {

using ast::Expr;

Values::Values(const ast::Kernel& kernel) {
  for (const ast::Statement& statement : kernel.statements) {
    const auto* let = std::get_if<ast::Let>(&statement);
    if (let == nullptr) continue;
    const ValueId value = of(let->value);
    for (size_t i = 0; i < let->names.size(); ++i) {
      const std::string& name = let->names[i].text;
      names_[name] = let->names.size() == 1 ? value : intern(fmt::format("part {} {}", i, value), {value});
      definitions_[name] = let;
    }
  }
}

ValueId Values::of_name(const std::string& name) {
  const auto known = names_.find(name);
  return known != names_.end() ? known->second : intern("name " + name, {});
}

ValueId Values::of(const Expr& expr) {
  if (expr.kind == Expr::Kind::name) return of_name(expr.name.text);
  std::vector<ValueId> args;
  for (const Expr& arg : expr.args) args.push_back(of(arg));
  std::string key;
  switch (expr.kind) {
    case Expr::Kind::name: break;
    case Expr::Kind::number: key = "number " + expr.name.text; break;
    case Expr::Kind::negate: key = "negate"; break;
    case Expr::Kind::chain:
      key = "chain";
      for (const ast::Operator op : expr.operators) key += fmt::format(" {}", ast::operator_text(op));
      break;
    case Expr::Kind::call: key = "call " + expr.name.text; break;
    case Expr::Kind::index:
      key = "index";
      args = {of_name(expr.name.text), of_name(expr.second.text)};
      break;
    case Expr::Kind::member: key = fmt::format("member {} {}", expr.name.text, expr.second.text); break;
  }
  key += fmt::format(" ({})", fmt::join(args, ","));
  return intern(std::move(key), std::move(args));
}

const ast::Let* Values::definition(const std::string& name) const {
  const auto known = definitions_.find(name);
  return known == definitions_.end() ? nullptr : known->second;
}

bool Values::depends(ValueId from, ValueId to, const std::set<ValueId>& through) const {
  std::vector<ValueId> walk = {from};
  std::set<ValueId> seen;
  while (!walk.empty()) {
    const ValueId value = walk.back();
    walk.pop_back();
    if (through.count(value) != 0 || !seen.insert(value).second) continue;
    if (value == to) return true;
    walk.insert(walk.end(), args_[value].begin(), args_[value].end());
  }
  return false;
}

ValueId Values::intern(std::string key, std::vector<ValueId> args) {
  const auto [known, is_new] = known_.emplace(std::move(key), static_cast<ValueId>(args_.size()));
  if (is_new) args_.push_back(std::move(args));
  return known->second;
}

}  // namespace epifuse::chain
