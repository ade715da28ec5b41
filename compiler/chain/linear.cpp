#include "compiler/chain/linear.h"

#include <algorithm>

namespace epifuse::chain {
namespace {

using ast::Expr;
using ast::Operator;

class LinearForm {
 public:
  LinearForm(Values& values, ValueId product) : values_(values), product_(product) {}

  std::optional<Linear> of(const Expr& expr) {
    if (values_.of(expr) == product_) return Linear{};
    switch (expr.kind) {
      case Expr::Kind::name: {
        const ast::Let* let = values_.definition(expr.name.text);
        return let != nullptr && let->names.size() == 1 ? of(let->value) : std::nullopt;
      }
      case Expr::Kind::negate: {
        std::optional<Linear> inner = of(expr.args[0]);
        if (inner) negate(*inner);
        return inner;
      }
      case Expr::Kind::chain: return of_chain(expr);
      case Expr::Kind::call: return expr.name.text == "cast" ? of(expr.args[0]) : std::nullopt;
      default: return std::nullopt;
    }
  }

 private:
  static void negate(Linear& linear) {
    linear.factor.negative = !linear.factor.negative;
    for (Term& term : linear.rest) term.negative = !term.negative;
  }

  std::optional<Linear> of_chain(const Expr& expr) {
    const auto on_way = [&](const Expr& arg) { return values_.depends(values_.of(arg), product_); };
    const auto found = std::find_if(expr.args.begin(), expr.args.end(), on_way);
    if (std::count_if(expr.args.begin(), expr.args.end(), on_way) != 1) return std::nullopt;
    const size_t at = static_cast<size_t>(found - expr.args.begin());
    // The operator before each part; the first has the neutral one of its kind.
    const bool is_sum = expr.operators[0] == Operator::add || expr.operators[0] == Operator::sub;
    const bool is_product = expr.operators[0] == Operator::mul || expr.operators[0] == Operator::div;
    if (!is_sum && !is_product) return std::nullopt;
    const auto before = [&](size_t i) {
      return i > 0 ? expr.operators[i - 1] : is_sum ? Operator::add : Operator::mul;
    };
    if (before(at) == Operator::div) return std::nullopt;
    std::optional<Linear> result = of(*found);
    if (!result) return std::nullopt;
    if (before(at) == Operator::sub) negate(*result);
    for (size_t i = 0; i < expr.args.size(); ++i) {
      if (i == at) continue;
      if (is_sum) {
        result->rest.push_back({before(i) == Operator::sub, {{Operator::mul, expr.args[i]}}});
        continue;
      }
      result->factor.factors.emplace_back(before(i), expr.args[i]);
      for (Term& term : result->rest) term.factors.emplace_back(before(i), expr.args[i]);
    }
    return result;
  }

  Values& values_;
  ValueId product_;
};

void append(Text& to, const Text& part) {
  to.text += part.text;
  to.names.insert(part.names.begin(), part.names.end());
}

}  // namespace

std::optional<Linear> linear_form(Values& values, const Expr& expr, ValueId product) {
  return LinearForm(values, product).of(expr);
}

Text multiplied(const std::string& seed, const Term& term) {
  Text text{(term.negative ? "-" : "") + seed, {}};
  for (const auto& [op, factor] : term.factors) {
    text.text += op == Operator::mul ? " * " : " / ";
    append(text, expression_text(factor, {}, Binding::factor));
  }
  return text;
}

Text sum_text(const std::vector<Term>& terms) {
  Text text;
  for (const Term& term : terms) {
    text.text += text.text.empty() ? (term.negative ? "-" : "") : term.negative ? " - " : " + ";
    // A term comes from a sum, so its first factor multiplies.
    append(text,
           expression_text(term.factors[0].second, {}, term.factors.size() == 1 ? Binding::product : Binding::factor));
    Term others = term;
    others.negative = false;
    others.factors.erase(others.factors.begin());
    append(text, multiplied("", others));
  }
  return text;
}

}  // namespace epifuse::chain
