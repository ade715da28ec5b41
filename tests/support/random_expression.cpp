#include "tests/support/random_expression.h"

#include <algorithm>
#include <fmt/format.h>

namespace epifuse::test {
namespace {

constexpr double tame = 64;  // no value grows beyond

Expression positive(const Expression& e, std::string_view offset, double least) {
  return {fmt::format("(abs({}) + {})", e.text, offset), least, e.magnitude() + least};
}

// … without a kink.
Expression smoothly_positive(const Expression& e, std::string_view offset, double least) {
  return {fmt::format("({0} * {0} + {1})", e.text, offset), least, e.magnitude() * e.magnitude() + least};
}

Expression bounded(std::string_view function, const Expression& argument, double low, double high) {
  return {fmt::format("{}({})", function, argument.text), low, high};
}

}  // namespace

Expression tamed(Expression e) {
  if (e.magnitude() <= tame) return e;
  if (e.low >= 0) return {fmt::format("min({}, 40)", e.text), e.low, 40};
  return {fmt::format("clamp({}, -40, 40)", e.text), -40, 40};
}

std::string random_number(Random& random) {
  return fmt::format("{}", static_cast<double>(random.between(1, 300)) / 100);
}

Expression ExpressionMaker::make(int depth) {
  budget_ = 30;
  return operation(depth);
}

Expression ExpressionMaker::operation(int depth) {
  if (depth <= 0 || budget_-- <= 0) return leaf_();
  constexpr int64_t smooth_kinds = 14, all_kinds = 22;
  const int64_t kind = random_.below(smooth ? smooth_kinds : all_kinds);
  return kind < smooth_kinds ? smooth_operation(kind, depth) : kinked_operation(kind - smooth_kinds, depth);
}

Expression ExpressionMaker::smooth_operation(int64_t kind, int depth) {
  const Expression a = deep(depth);
  const auto away_from_zero = [&](const Expression& e, std::string_view offset, double least) {
    return smooth ? smoothly_positive(e, offset, least) : positive(e, offset, least);
  };
  switch (kind) {
    case 0:
    case 1: {
      const Expression b = shallow(depth);
      return tamed({fmt::format("({} + {})", a.text, b.text), a.low + b.low, a.high + b.high});
    }
    case 2: {
      const Expression b = shallow(depth);
      return tamed({fmt::format("({} - {})", a.text, b.text), a.low - b.high, a.high - b.low});
    }
    case 3:
    case 4: {
      const Expression b = shallow(depth);
      const double most = a.magnitude() * b.magnitude();
      return tamed({fmt::format("({} * {})", a.text, b.text), -most, most});
    }
    case 5: {
      const Expression b = away_from_zero(shallow(depth), "0.5", 0.5);
      return tamed({fmt::format("({} / {})", a.text, b.text), -2 * a.magnitude(), 2 * a.magnitude()});
    }
    case 6: return {fmt::format("(-{})", a.text), -a.high, -a.low};
    case 7: {
      const Expression b = shallow(depth);
      const double most = std::max(1.0, a.magnitude()) * b.magnitude();
      return tamed({fmt::format("gate({}, {})", a.text, b.text), -most, most});
    }
    case 8: return bounded("tanh", a, -1, 1);
    case 9: return bounded("sigmoid", a, 0, 1);
    case 10: return random_.one_in(2) ? bounded("erf", a, -1, 1) : bounded("erfc", a, 0, 2);
    case 11: {
      if (smooth) return {fmt::format("exp(2 * tanh({}))", a.text), 0, 8};
      return {fmt::format("exp(min({}, 3))", a.text), 0, 21};
    }
    case 12: {
      const Expression b = away_from_zero(a, "0.5", 0.5);
      return {"log" + b.text, -1, std::max(5.0, std::log(b.high))};
    }
    default: {
      const Expression b = away_from_zero(a, "0.1", 0.1);
      if (random_.one_in(2)) return {"sqrt" + b.text, 0, std::sqrt(b.high)};
      return {"rsqrt" + b.text, 0, 3.2};
    }
  }
}

Expression ExpressionMaker::kinked_operation(int64_t kind, int depth) {
  const Expression a = deep(depth);
  switch (kind) {
    case 0: return {fmt::format("abs({})", a.text), 0, a.magnitude()};
    case 1: {
      const Expression b = shallow(depth);
      return {fmt::format("min({}, {})", a.text, b.text), std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    case 2: {
      const Expression b = shallow(depth);
      return {fmt::format("max({}, {})", a.text, b.text), std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    case 3: return {fmt::format("clamp({}, -{}, 2.5)", a.text, random_number(random_)), -3, 2.5};
    case 4: {
      const std::string type = random_.of<std::string>({"bf16", "f16", "e4m3", "e5m2", "f32"});
      return {fmt::format("cast({}, {})", a.text, type), 1.1 * a.low, 1.1 * a.high};
    }
    default: return choice(a, shallow(depth));
  }
}

// A branch by exact numbers; or at zero, where both branches meet; or by an input that is NaN where another is
// negative.
Expression ExpressionMaker::choice(const Expression& a, const Expression& b) {
  const Expression left = leaf_(), right = leaf_();
  const double low = std::min(a.low, b.low), high = std::max(a.high, b.high);
  if (!left.exact || !right.exact)
    return tamed({fmt::format("select({} > 0, {}, 0.125 * {})", a.text, a.text, a.text), a.low, std::max(0., a.high)});
  if (nan && random_.one_in(12) && left.low < 0)
    return {fmt::format("({} + 0 * log({}))", a.text, left.text), a.low, a.high};
  static const std::vector<std::string> comparisons = {"<", "<=", ">", ">=", "==", "!="};
  return {fmt::format("select({} {} {}, {}, {})", left.text, random_.of(comparisons), right.text, a.text, b.text), low,
          high};
}

}  // namespace epifuse::test
