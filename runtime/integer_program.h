// Integer expressions compiled for repeated evaluation: the symbols are slots of an array, the tree is postfix code.
// Binding a call evaluates dozens of them, and a framework binds at every step, so names are looked up only once, when
// a kernel is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/integer_expression.h"

namespace epifuse::runtime {

class IntProgram {
 public:
  IntProgram() : IntProgram(IntExpr(0), nullptr) {}
  // `slot_of` gives the slot of each symbol of `expression`; all must be known (InternalError).
  using SlotOf = std::function<std::optional<int>(std::string_view)>;
  IntProgram(const IntExpr& expression, const SlotOf& slot_of);

  // The value for these slots, with the checks of IntExpr::evaluate. A slot that has no value yet holds nullopt.
  using Slots = std::span<const std::optional<int64_t>>;
  Result<int64_t> evaluate(Slots slots) const { return evaluate(slots, -1, 0); }
  // The same with another value in one slot.
  Result<int64_t> evaluate(Slots slots, int other_slot, int64_t other_value) const;

  const IntExpr& expression() const { return expression_; }
  int uses_of(int slot) const;  // how often it stands in the expression

 private:
  struct Instruction {
    IntExpr::Op op;
    int64_t value;  // of a constant; slot of a symbol
  };
  void append(const IntExpr& expression, const SlotOf& slot_of);

  IntExpr expression_;
  std::vector<Instruction> code_;
};

}  // namespace epifuse::runtime
