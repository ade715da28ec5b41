// Numbers known at compile time: `const`, the defaults of `param`, and the arguments that must be numbers.
#include <cmath>
#include <fmt/format.h>

#include "compiler/semantics/builtins.h"
#include "compiler/semantics/definitions.h"
#include "compiler/semantics/operators.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;

// Leaves the evaluation once the mistake is reported; caught in evaluate_constant.
struct NotConstant {};

class ConstantEvaluator {
 public:
  ConstantEvaluator(const ConstantLookup& lookup, const Definitions& definitions, Reporter& report)
      : lookup_(lookup), definitions_(definitions), report_(report) {}

  double value(const Expr& expr) {
    if (++depth_ > max_inlined_nesting) fail(expr.where, "the constant is nested too deep in functions");
    const double result = value_of(expr);
    --depth_;
    return result;
  }

 private:
  double value_of(const Expr& expr) {
    switch (expr.kind) {
      case Expr::Kind::number: return expr.number;
      case Expr::Kind::name: return name(expr);
      case Expr::Kind::negate: return -value(expr.args[0]);
      case Expr::Kind::chain: return chain(expr);
      case Expr::Kind::call: return call(expr);
      case Expr::Kind::index:
      case Expr::Kind::member: break;
    }
    fail(expr.where, "a constant is made of numbers, constants and functions");
  }

  [[noreturn]] void fail(const Span& where, std::string message, std::string hint = "") {
    report_.error(where, std::move(message), std::move(hint));
    throw NotConstant{};
  }

  double name(const Expr& expr) {
    if (params_ != nullptr) {
      const auto param = params_->find(expr.name.text);
      if (param != params_->end()) return param->second;
    }
    const std::optional<std::optional<double>> constant = lookup_(expr.name.text);
    // In a body, it has been or will be reported where the function is defined.
    if (!constant && params_ != nullptr) throw NotConstant{};
    if (!constant)
      fail(expr.where, fmt::format("'{}' is not a constant", expr.name.text),
           "a constant is made of numbers, constants defined above, and functions");
    if (!*constant) throw NotConstant{};
    return **constant;
  }

  double chain(const Expr& expr) {
    double result = value(expr.args[0]);
    for (size_t i = 0; i < expr.operators.size(); ++i) {
      const OperatorMeaning meaning = operator_meaning(expr.operators[i]);
      const double right = value(expr.args[i + 1]);
      result = evaluate(meaning.op, meaning.swapped ? std::vector{right, result} : std::vector{result, right});
    }
    return result;
  }

  double call(const Expr& expr) {
    if (++calls_ > max_inlined_calls) fail(expr.where, "the constant calls too many functions");
    std::vector<double> args;
    const std::optional<MapFunction> builtin = map_function(expr.name.text);
    const auto function = definitions_.functions.find(expr.name.text);
    const bool known = builtin || function != definitions_.functions.end();
    if (!known && special_function(expr.name.text) != nullptr)
      fail(expr.where, fmt::format("'{}' has no constant result", expr.name.text));
    if (!known) {
      report_unknown_function(expr.name, definitions_, report_);
      throw NotConstant{};
    }
    for (const Expr& arg : expr.args) args.push_back(value(arg));
    const size_t arity = builtin ? static_cast<size_t>(builtin->arity) : function->second.tree->params.size();
    if (args.size() != arity)
      fail(expr.where,
           fmt::format("'{}' takes {} argument{}, not {}", expr.name.text, arity, arity == 1 ? "" : "s", args.size()));
    if (builtin) return evaluate(builtin->op, args);
    if (!function->second.sound) throw NotConstant{};
    std::map<std::string, double> params;
    for (size_t i = 0; i < arity; ++i) params[function->second.tree->params[i].text] = args[i];
    const std::map<std::string, double>* outer = params_;
    params_ = &params;
    const double result = value(function->second.tree->body);
    params_ = outer;
    return result;
  }

  const ConstantLookup& lookup_;
  const Definitions& definitions_;
  Reporter& report_;
  const std::map<std::string, double>* params_ = nullptr;  // of the function being evaluated
  int64_t calls_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<double> evaluate_constant(const Expr& expr, const ConstantLookup& lookup, const Definitions& definitions,
                                        Reporter& report) {
  double value = 0;
  try {
    value = ConstantEvaluator(lookup, definitions, report).value(expr);
  } catch (const NotConstant&) {
    return std::nullopt;
  }
  if (!(std::fabs(value) <= 3.4028234663852886e38)) {
    report.error(expr.where, fmt::format("the constant is {}, which no f32 holds", value));
    return std::nullopt;
  }
  return value;
}

}  // namespace epifuse::semantics
