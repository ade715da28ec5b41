#include "compiler/interpreter/map_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ensure.h"
#include "base/numbers.h"

namespace epifuse::interpreter {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Functions that are not rounded once: relative error, and what underflow may add.
constexpr double function_error = 0x1p-20;
constexpr double function_floor = 0x1p-126;
// From here on a double rounds to an f32 infinity.
constexpr double f32_overflow = 0x1.ffffffp127;

struct Interval {
  double low, high;
};
constexpr Interval anything = {nan, nan};

double within_f32(double value) { return std::fabs(value) >= f32_overflow ? std::copysign(infinity, value) : value; }

// The ends were computed in double: one unit outward makes them bounds again. Exact intervals stay exact.
Interval outward(Interval x) {
  if (!(x.low < x.high)) return x;
  return {x.low - std::fabs(x.low) * 0x1p-52, x.high + std::fabs(x.high) * 0x1p-52};
}

// Holds every number of x and its rounding to f32.
Interval with_rounding(Interval x) {
  x = outward(x);
  return {std::min<double>(x.low, static_cast<float>(x.low)), std::max<double>(x.high, static_cast<float>(x.high))};
}

Interval with_function_error(Interval x) {
  // An infinite end stays infinite: infinity less a part of itself would be NaN.
  const auto error = [](double end) { return std::min(std::fabs(end), 1e300) * function_error + function_floor; };
  return with_rounding({x.low - error(x.low), x.high + error(x.high)});
}

// IEEE 754-2019 minimum and maximum: NaN if either is, -0 below +0.
double minimum(double a, double b) {
  if (a != a || b != b) return nan;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double maximum(double a, double b) {
  if (a != a || b != b) return nan;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

Interval hull(Interval a, Interval b) { return {minimum(a.low, b.low), maximum(a.high, b.high)}; }

Interval product(Interval a, Interval b) {
  const double p[4] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  for (double x : p)
    if (x != x) return anything;
  return {std::min({p[0], p[1], p[2], p[3]}), std::max({p[0], p[1], p[2], p[3]})};
}

Interval quotient(Interval a, Interval b) {
  const bool exact = b.low == b.high;
  if (!exact && !(b.low > 0 || b.high < 0)) return anything;
  const double q[4] = {a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high};
  for (double x : q)
    if (x != x) return anything;
  return {std::min({q[0], q[1], q[2], q[3]}), std::max({q[0], q[1], q[2], q[3]})};
}

Interval square(Interval a) {
  const double low = a.low * a.low, high = a.high * a.high;
  if (low != low || high != high) return anything;
  if (a.low <= 0 && a.high >= 0) return {0, std::max(low, high)};
  return {std::min(low, high), std::max(low, high)};
}

Interval absolute(Interval a) {
  if (a.low >= 0 || a.low != a.low) return a;
  if (a.high <= 0) return {-a.high, -a.low};
  return {0, std::max(-a.low, a.high)};
}

// 1 where it must be true, 0 where it must be false, else either.
Interval truth(bool certain, bool possible) { return {certain ? 1.0 : 0.0, possible ? 1.0 : 0.0}; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }

struct Lanes {
  int count;
  const Lane &result, &a, &b, &c;
};

// Applies `value` to the values and `bound` to the intervals of one, two or three arguments.
template <class Value, class Bound>
void unary(const Lanes& l, Value value, Bound bound) {
  for (int i = 0; i < l.count; ++i) l.result.value[i] = within_f32(value(l.a.value[i]));
  if (!l.result.low) return;
  for (int i = 0; i < l.count; ++i) {
    const Interval x = bound(Interval{l.a.low[i], l.a.high[i]});
    l.result.low[i] = x.low, l.result.high[i] = x.high;
  }
}

template <class Value, class Bound>
void binary(const Lanes& l, Value value, Bound bound) {
  for (int i = 0; i < l.count; ++i) l.result.value[i] = within_f32(value(l.a.value[i], l.b.value[i]));
  if (!l.result.low) return;
  for (int i = 0; i < l.count; ++i) {
    const Interval x = bound(Interval{l.a.low[i], l.a.high[i]}, Interval{l.b.low[i], l.b.high[i]});
    l.result.low[i] = x.low, l.result.high[i] = x.high;
  }
}

template <class Value, class Bound>
void ternary(const Lanes& l, Value value, Bound bound) {
  for (int i = 0; i < l.count; ++i) l.result.value[i] = value(l.a.value[i], l.b.value[i], l.c.value[i]);
  if (!l.result.low) return;
  for (int i = 0; i < l.count; ++i) {
    const Interval x =
        bound(Interval{l.a.low[i], l.a.high[i]}, Interval{l.b.low[i], l.b.high[i]}, Interval{l.c.low[i], l.c.high[i]});
    l.result.low[i] = x.low, l.result.high[i] = x.high;
  }
}

// A function that rises (or falls) everywhere and is good to the error of functions. Where the argument is exact, its
// value at the ends is that of the middle: functions are most of what an evaluation costs.
template <class Function>
void monotone(const Lanes& l, bool rises, Function f) {
  for (int i = 0; i < l.count; ++i) {
    const double x = l.a.value[i], y = f(x);
    l.result.value[i] = within_f32(y);
    if (!l.result.low) continue;
    const auto at = [&](double end) { return end == x && x != 0 ? y : f(end); };
    const double first = at(l.a.low[i]), last = at(l.a.high[i]);
    const Interval bound = with_function_error(rises ? Interval{first, last} : Interval{last, first});
    l.result.low[i] = bound.low, l.result.high[i] = bound.high;
  }
}
template <class Function>
void rising(const Lanes& l, Function f) {
  monotone(l, true, f);
}
template <class Function>
void falling(const Lanes& l, Function f) {
  monotone(l, false, f);
}

void square_root(const Lanes& l) {
  unary(
      l, [](double x) { return std::sqrt(x); },
      [](Interval x) {
        return with_rounding({std::sqrt(x.low), std::sqrt(x.high)});
      });
}

void multiply(const Lanes& l) {
  const auto value = [](double a, double b) { return a * b; };
  // A square has no sign: the general product does not know that both arguments are the same number.
  if (l.a.value == l.b.value)
    return unary(
        l, [](double a) { return a * a; }, [](Interval a) { return with_rounding(square(a)); });
  binary(l, value, [](Interval a, Interval b) { return with_rounding(product(a, b)); });
}

void round_to_type(const Lanes& l, Storage to) {
  const FloatFormat& format = float_format(to);
  const auto round = [&](double x) { return decode(format, encode(format, x)); };
  unary(l, round, [&](Interval x) { return x.low != x.low ? x : Interval{round(x.low), round(x.high)}; });
}

// Whether an operation is one that has steps where its argument crosses an edge. min, max, clamp and abs have none, and
// those of f32 are its rounding.
bool has_steps(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::less:
    case ir::Op::less_equal:
    case ir::Op::equal:
    case ir::Op::not_equal:
    case ir::Op::select: return true;
    case ir::Op::cast: return node.to != Storage::f32;
    default: return false;
  }
}

// A jump of an argument, or of the operation itself, as far as it shows in the result.
void find_jumps(const ir::Node& node, const Lanes& l) {
  const Lane* args[] = {&l.a, &l.b, &l.c};
  const int arity = ir::op_info(node.op).arity;
  const bool steps = has_steps(node);
  for (int i = 0; i < l.count; ++i) {
    bool jumps = steps && args[0]->low[i] != args[0]->high[i];
    for (int arg = 0; arg < arity; ++arg) jumps = jumps || args[arg]->jumps[i] != 0;
    l.result.jumps[i] = jumps && l.result.low[i] != l.result.high[i];
  }
}

bool overlap(Interval a, Interval b) { return a.low <= b.high && b.low <= a.high; }
bool same_number(Interval a, Interval b) { return a.low == a.high && b.low == b.high && a.low == b.low; }

void compute(const ir::Node& node, const Lanes& l) {
  using I = Interval;
  switch (node.op) {
    case ir::Op::add:
      return binary(
          l, [](double x, double y) { return x + y; },
          [](I x, I y) {
            return with_rounding({x.low + y.low, x.high + y.high});
          });
    case ir::Op::sub:
      return binary(
          l, [](double x, double y) { return x - y; },
          [](I x, I y) {
            return with_rounding({x.low - y.high, x.high - y.low});
          });
    case ir::Op::mul: return multiply(l);
    case ir::Op::div:
      return binary(
          l, [](double x, double y) { return x / y; }, [](I x, I y) { return with_rounding(quotient(x, y)); });
    case ir::Op::neg:
      return unary(
          l, [](double x) { return -x; },
          [](I x) {
            return I{-x.high, -x.low};
          });
    case ir::Op::less:
      return binary(
          l, [](double x, double y) { return x < y ? 1.0 : 0.0; },
          [](I x, I y) { return truth(x.high < y.low, !(x.low >= y.high)); });
    case ir::Op::less_equal:
      return binary(
          l, [](double x, double y) { return x <= y ? 1.0 : 0.0; },
          [](I x, I y) { return truth(x.high <= y.low, !(x.low > y.high)); });
    case ir::Op::equal:
      return binary(
          l, [](double x, double y) { return x == y ? 1.0 : 0.0; },
          [](I x, I y) { return truth(same_number(x, y), overlap(x, y)); });
    case ir::Op::not_equal:
      return binary(
          l, [](double x, double y) { return x != y ? 1.0 : 0.0; },
          [](I x, I y) { return truth(!overlap(x, y), !same_number(x, y)); });
    case ir::Op::select:
      return ternary(
          l, [](double x, double y, double z) { return x != 0 ? y : z; },
          [](I x, I y, I z) {
            if (x.low > 0 || x.high < 0) return y;
            return x.low == 0 && x.high == 0 ? z : hull(y, z);
          });
    case ir::Op::min:
      return binary(l, minimum, [](I x, I y) { return I{minimum(x.low, y.low), minimum(x.high, y.high)}; });
    case ir::Op::max:
      return binary(l, maximum, [](I x, I y) { return I{maximum(x.low, y.low), maximum(x.high, y.high)}; });
    case ir::Op::clamp: {
      const auto clamp = [](double x, double y, double z) { return minimum(maximum(x, y), z); };
      return ternary(l, clamp, [&](I x, I y, I z) {
        return I{clamp(x.low, y.low, z.low), clamp(x.high, y.high, z.high)};
      });
    }
    case ir::Op::abs:
      return unary(
          l, [](double x) { return std::fabs(x); }, absolute);
    case ir::Op::exp: return rising(l, [](double x) { return std::exp(x); });
    case ir::Op::log: return rising(l, [](double x) { return std::log(x); });
    case ir::Op::tanh: return rising(l, [](double x) { return std::tanh(x); });
    case ir::Op::sigmoid: return rising(l, sigmoid);
    case ir::Op::erf: return rising(l, [](double x) { return std::erf(x); });
    case ir::Op::erfc: return falling(l, [](double x) { return std::erfc(x); });
    case ir::Op::sqrt: return square_root(l);
    case ir::Op::rsqrt: return falling(l, reciprocal_root);
    case ir::Op::cast: return round_to_type(l, node.to);
    default: EPIFUSE_ENSURE(false, "an operation that is no map");
  }
}

}  // namespace

void apply_map(const ir::Node& node, int count, const Lane& result, const Lane& a, const Lane& b, const Lane& c) {
  const Lanes l{count, result, a, b, c};
  compute(node, l);
  if (result.low) find_jumps(node, l);
}

void fill_number(double number, int count, const Lane& result) {
  const double rounded = static_cast<float>(number);
  std::fill_n(result.value, count, rounded);
  if (!result.low) return;
  std::fill_n(result.low, count, std::min(number, rounded));
  std::fill_n(result.high, count, std::max(number, rounded));
  std::fill_n(result.jumps, count, 0.0);
}

}  // namespace epifuse::interpreter
