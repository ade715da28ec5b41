// Internal to chain: a value as a multiple of a product plus what does not depend on it, p · a / b + c - d. Of such a
// value the derivative by p is known without p.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/chain/spec_text.h"
#include "compiler/chain/values.h"

namespace epifuse::chain {

// ± factor · factor / factor
struct Term {
  bool negative = false;
  std::vector<std::pair<ast::Operator, ast::Expr>> factors;  // mul, div; none: 1

  bool is_one() const { return !negative && factors.empty(); }
};

struct Linear {
  Term factor;             // of the product
  std::vector<Term> rest;  // a sum
};

// Nothing when the value is not of this form. `cast` counts as its argument: its derivative is 1.
std::optional<Linear> linear_form(Values& values, const ast::Expr& expr, ValueId product);

// "seed * a / b", and the rest as a sum.
Text multiplied(const std::string& seed, const Term& term);
Text sum_text(const std::vector<Term>& terms);

}  // namespace epifuse::chain
