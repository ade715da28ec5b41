// Building, folding, printing, parsing and evaluating integer expressions.
//
// Folding happens when a node is made, and what it yields is a fixed point: making the same node again from the same
// operands gives the same node. Therefore parse(text).text() == text for every text that text() prints, and two
// expressions that were written with other spellings of a constant ("2*M", "M*2") compare equal.
#include "base/integer_expression.h"

#include <array>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "base/ensure.h"

namespace epifuse {
namespace {

using Op = IntExpr::Op;

enum class Fault { none, overflow, remainder, divisor };

// The one place that knows what each operator computes.
Fault apply(Op op, int64_t a, int64_t b, int64_t& result) {
  switch (op) {
    case Op::add: return __builtin_add_overflow(a, b, &result) ? Fault::overflow : Fault::none;
    case Op::sub: return __builtin_sub_overflow(a, b, &result) ? Fault::overflow : Fault::none;
    case Op::mul: return __builtin_mul_overflow(a, b, &result) ? Fault::overflow : Fault::none;
    case Op::min: result = a < b ? a : b; return Fault::none;
    case Op::max: result = a > b ? a : b; return Fault::none;
    case Op::exact_div:
    case Op::ceil_div:
    case Op::round_up: break;
    case Op::constant:
    case Op::symbol: EPIFUSE_ENSURE(false, "a leaf has no operator");
  }
  if (b <= 0) return Fault::divisor;
  const int64_t quotient = a / b;
  const int64_t rest = a % b;
  if (op == Op::exact_div) {
    result = quotient;
    return rest == 0 ? Fault::none : Fault::remainder;
  }
  result = quotient + (rest > 0 ? 1 : 0);
  if (op == Op::ceil_div) return Fault::none;
  return __builtin_mul_overflow(result, b, &result) ? Fault::overflow : Fault::none;
}

std::string_view function_name(Op op) {
  switch (op) {
    case Op::exact_div: return "exact_div";
    case Op::ceil_div: return "ceil_div";
    case Op::round_up: return "round_up";
    case Op::min: return "min";
    case Op::max: return "max";
    default: return "";
  }
}

constexpr std::array function_ops = {Op::exact_div, Op::ceil_div, Op::round_up, Op::min, Op::max};

// Binding strength of what is printed: an operand that binds less than its place needs is put in parentheses.
int strength(Op op) {
  if (op == Op::add || op == Op::sub) return 1;
  return op == Op::mul ? 2 : 3;
}

// Those that a formula writes with '/', which binds as '*' does.
bool is_quotient(Op op) { return op == Op::exact_div || op == Op::ceil_div || op == Op::round_up; }

}  // namespace

IntExpr::IntExpr(int64_t value) : node_(std::make_shared<const Node>(Node{Op::constant, value, {}, {}, {}})) {}

IntExpr IntExpr::symbol(std::string name) {
  return IntExpr(std::make_shared<const Node>(Node{Op::symbol, 0, std::move(name), {}, {}}));
}

std::optional<int64_t> IntExpr::constant() const {
  if (op() != Op::constant) return std::nullopt;
  return node_->value;
}

IntExpr IntExpr::left() const {
  EPIFUSE_ENSURE(node_->left, "a leaf has no operands");
  return IntExpr(node_->left);
}

IntExpr IntExpr::right() const {
  EPIFUSE_ENSURE(node_->right, "a leaf has no operands");
  return IntExpr(node_->right);
}

IntExpr IntExpr::make(Op op, const IntExpr& a, const IntExpr& b) {
  const auto left = a.constant();
  const auto right = b.constant();
  int64_t value = 0;
  if (left && right && apply(op, *left, *right, value) == Fault::none) return value;

  const bool commutes = op == Op::add || op == Op::mul || op == Op::min || op == Op::max;
  if (commutes && left && !right) return make(op, b, a);
  if (op == Op::sub && right && *right != std::numeric_limits<int64_t>::min()) return make(Op::add, a, -*right);

  if (right && !left) {
    const int64_t c = *right;
    if (op == Op::add && c == 0) return a;
    if (op == Op::mul && c == 0) return 0;
    if (c == 1 && (op == Op::mul || op == Op::exact_div || op == Op::ceil_div || op == Op::round_up)) return a;
    // (x + 3) + 4, (x * 3) * 4, min(min(x, 3), 4): one constant, when it can be computed.
    if (commutes && a.op() == op) {
      const auto inner = a.right().constant();
      if (inner && apply(op, *inner, c, value) == Fault::none) return make(op, a.left(), value);
    }
    if (op == Op::exact_div && c > 0 && a.op() == Op::mul) {
      const auto inner = a.right().constant();
      if (inner && *inner % c == 0) return make(Op::mul, a.left(), *inner / c);
    }
  }
  if ((op == Op::min || op == Op::max) && a == b) return a;
  return IntExpr(std::make_shared<const Node>(Node{op, 0, {}, a.node_, b.node_}));
}

IntExpr operator+(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::add, a, b); }
IntExpr operator-(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::sub, a, b); }
IntExpr operator*(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::mul, a, b); }
IntExpr exact_div(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::exact_div, a, b); }
IntExpr ceil_div(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::ceil_div, a, b); }
IntExpr round_up(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::round_up, a, b); }
IntExpr min(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::min, a, b); }
IntExpr max(const IntExpr& a, const IntExpr& b) { return IntExpr::make(Op::max, a, b); }

std::string IntExpr::text() const { return spell(Spelling::exact); }
std::string IntExpr::formula() const { return spell(Spelling::readable); }

std::string IntExpr::spell(Spelling spelling) const {
  if (op() == Op::constant) return fmt::format("{}", node_->value);
  if (op() == Op::symbol) return node_->name;
  const IntExpr a = left(), b = right();
  const bool readable = spelling == Spelling::readable;
  const auto operand = [&](const IntExpr& e, int at_least) {
    const int bond = readable && is_quotient(e.op()) && e.op() != Op::ceil_div ? strength(Op::mul) : strength(e.op());
    return bond < at_least ? fmt::format("({})", e.spell(spelling)) : e.spell(spelling);
  };
  if (readable && is_quotient(op())) {
    const std::string quotient = fmt::format("{} / {}", operand(a, 2), operand(b, 3));
    if (op() == Op::exact_div) return quotient;
    return op() == Op::ceil_div ? fmt::format("ceil({})", quotient)
                                : fmt::format("ceil({}) * {}", quotient, operand(b, 3));
  }
  if (const auto name = function_name(op()); !name.empty())
    return fmt::format("{}({}, {})", name, a.spell(spelling), b.spell(spelling));

  // The right operand of + - * needs the stronger bond, so that the text parses back into the same tree.
  const int bond = strength(op());
  const auto c = b.constant();
  if (op() == Op::add && c && *c < 0 && *c != std::numeric_limits<int64_t>::min()) {
    return fmt::format("{} - {}", operand(a, bond), -*c);
  }
  const char sign = op() == Op::add ? '+' : op() == Op::sub ? '-' : '*';
  return fmt::format("{} {} {}", operand(a, bond), sign, operand(b, bond + 1));
}

void IntExpr::collect_symbols(std::set<std::string>& into) const {
  if (op() == Op::constant) return;
  if (op() == Op::symbol) {
    into.insert(node_->name);
    return;
  }
  left().collect_symbols(into);
  right().collect_symbols(into);
}

Result<int64_t> IntExpr::evaluate(const Lookup& lookup) const {
  if (op() == Op::constant) return node_->value;
  if (op() == Op::symbol) {
    if (const auto value = lookup(node_->name)) return *value;
    return user_error(fmt::format("the size '{}' is not known", node_->name));
  }
  const auto a = left().evaluate(lookup);
  if (!a) return a.error();
  const auto b = right().evaluate(lookup);
  if (!b) return b.error();
  return apply_int_op(op(), *a, *b, *this);
}

IntExpr IntExpr::substitute(const Lookup& lookup) const {
  if (op() == Op::constant) return *this;
  if (op() == Op::symbol) {
    const auto value = lookup(node_->name);
    return value ? IntExpr(*value) : *this;
  }
  return make(op(), left().substitute(lookup), right().substitute(lookup));
}

Result<int64_t> apply_int_op(IntExpr::Op op, int64_t a, int64_t b, const IntExpr& where) {
  int64_t value = 0;
  switch (apply(op, a, b, value)) {
    case Fault::none: return value;
    case Fault::overflow: return user_error(fmt::format("'{}' does not fit in 64 bits", where.formula()));
    case Fault::remainder: return user_error(fmt::format("in '{}', {} is not a multiple of {}", where.formula(), a, b));
    case Fault::divisor: return user_error(fmt::format("in '{}', the divisor {} is not positive", where.formula(), b));
  }
  EPIFUSE_ENSURE(false, "unknown fault");
}

namespace {

// Texts come from files that anyone may have written; the bounds keep recursion (here, in evaluate() and in the
// destructor) shallow.
constexpr size_t longest_text = 4096;
constexpr int deepest_nesting = 100;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<IntExpr> parse() {
    if (text_.size() > longest_text) return user_error("an integer expression is too long");
    auto value = sum(0);
    if (!value) return value;
    skip_space();
    if (at_ != text_.size()) return bad("an operator");
    return value;
  }

 private:
  Result<IntExpr> sum(int depth) {
    auto left = product(depth);
    while (left) {
      const bool plus = accept('+');
      if (!plus && !accept('-')) break;
      auto right = product(depth);
      if (!right) return right;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }

  Result<IntExpr> product(int depth) {
    auto left = atom(depth);
    while (left && accept('*')) {
      auto right = atom(depth);
      if (!right) return right;
      left = *left * *right;
    }
    return left;
  }

  Result<IntExpr> atom(int depth) {
    if (depth > deepest_nesting) return user_error("an integer expression is nested too deeply");
    skip_space();
    if (accept('(')) {
      auto value = sum(depth + 1);
      if (value && !accept(')')) return bad("')'");
      return value;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '-')) return number();
    const auto name = word();
    if (name.empty()) return bad("a number or a name");
    if (!accept('(')) return IntExpr::symbol(std::string(name));
    return call(name, depth);
  }

  Result<IntExpr> call(std::string_view name, int depth) {
    auto a = sum(depth + 1);
    if (!a) return a;
    if (!accept(',')) return bad("','");
    auto b = sum(depth + 1);
    if (!b) return b;
    if (!accept(')')) return bad("')'");
    for (const Op op : function_ops) {
      if (function_name(op) != name) continue;
      switch (op) {
        case Op::exact_div: return exact_div(*a, *b);
        case Op::ceil_div: return ceil_div(*a, *b);
        case Op::round_up: return round_up(*a, *b);
        case Op::min: return min(*a, *b);
        default: return max(*a, *b);
      }
    }
    return user_error(fmt::format("there is no integer function '{}'", name));
  }

  Result<IntExpr> number() {
    int64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc()) return bad("a 64-bit number");
    at_ += static_cast<size_t>(end - first);
    return IntExpr(value);
  }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || (at_ > begin && (is_digit(text_[at_]) || text_[at_] == '.')))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  Error bad(std::string_view expected) const {
    return user_error(fmt::format("integer expression '{}': expected {} at column {}", text_, expected, at_ + 1));
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<IntExpr> parse_int_expr(std::string_view text) { return Parser(text).parse(); }

}  // namespace epifuse
