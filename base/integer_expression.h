// Integer expressions over named symbols: extents, strides, grid sizes and workspace sizes in a launch recipe.
//
// They are values (cheap to copy, compared by text), print as text that parses back, and are evaluated exactly: an
// overflow of 64 bits, a division that leaves a remainder, or an unknown symbol is an error, never a wrong number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse {

class IntExpr {
 public:
  enum class Op { constant, symbol, add, sub, mul, exact_div, ceil_div, round_up, min, max };

  IntExpr(int64_t value = 0);
  static IntExpr symbol(std::string name);

  Op op() const { return node_->op; }
  std::optional<int64_t> constant() const;
  const std::string& name() const { return node_->name; }  // of a symbol; else empty
  IntExpr left() const;                                    // operands of an operator; a leaf has none (InternalError)
  IntExpr right() const;

  friend IntExpr operator+(const IntExpr& a, const IntExpr& b);
  friend IntExpr operator-(const IntExpr& a, const IntExpr& b);
  friend IntExpr operator*(const IntExpr& a, const IntExpr& b);
  friend IntExpr exact_div(const IntExpr& a, const IntExpr& b);  // a / b, an error when b does not divide a
  friend IntExpr ceil_div(const IntExpr& a, const IntExpr& b);
  friend IntExpr round_up(const IntExpr& a, const IntExpr& b);
  friend IntExpr min(const IntExpr& a, const IntExpr& b);
  friend IntExpr max(const IntExpr& a, const IntExpr& b);

  bool operator==(const IntExpr& other) const { return text() == other.text(); }

  // "ceil_div(M, 128) * 16 + 4": parse_int_expr reads it back.
  std::string text() const;
  // The same as people write it, for messages: "ceil(M / 128) * 16 + 4". It is not read back.
  std::string formula() const;

  // Names of the symbols in it.
  void collect_symbols(std::set<std::string>& into) const;

  using Lookup = std::function<std::optional<int64_t>(std::string_view)>;
  Result<int64_t> evaluate(const Lookup& lookup) const;
  // The expression with a number in the place of each symbol that has one.
  IntExpr substitute(const Lookup& lookup) const;

 private:
  struct Node {
    Op op;
    int64_t value = 0;
    std::string name;
    std::shared_ptr<const Node> left, right;
  };
  explicit IntExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  static IntExpr make(Op op, const IntExpr& a, const IntExpr& b);
  enum class Spelling { exact, readable };
  std::string spell(Spelling spelling) const;

  std::shared_ptr<const Node> node_;
};

Result<IntExpr> parse_int_expr(std::string_view text);

// One operator on two numbers, with the checks of evaluate(); `where` is named in the error.
Result<int64_t> apply_int_op(IntExpr::Op op, int64_t a, int64_t b, const IntExpr& where);

}  // namespace epifuse
