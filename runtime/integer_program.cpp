// Compiling integer expressions to postfix code, and running it on a stack of fixed size.
#include "runtime/integer_program.h"

#include <array>
#include <fmt/format.h>

#include "base/ensure.h"

namespace epifuse::runtime {
namespace {

// Enough for any expression of a recipe: a left-leaning chain needs two places however long it is.
constexpr size_t deepest_stack = 64;

}  // namespace

IntProgram::IntProgram(const IntExpr& expression, const SlotOf& slot_of) : expression_(expression) {
  append(expression, slot_of);
}

void IntProgram::append(const IntExpr& e, const SlotOf& slot_of) {
  switch (e.op()) {
    case IntExpr::Op::constant: code_.push_back({e.op(), *e.constant()}); return;
    case IntExpr::Op::symbol: {
      const auto slot = slot_of(e.name());
      EPIFUSE_ENSURE(slot, fmt::format("symbol '{}' of a validated recipe is unknown", e.name()));
      code_.push_back({e.op(), *slot});
      return;
    }
    default:
      append(e.left(), slot_of);
      append(e.right(), slot_of);
      code_.push_back({e.op(), 0});
  }
}

Result<int64_t> IntProgram::evaluate(Slots slots, int other_slot, int64_t other_value) const {
  std::array<int64_t, deepest_stack> stack;
  size_t depth = 0;
  for (const Instruction& i : code_) {
    if (i.op == IntExpr::Op::constant || i.op == IntExpr::Op::symbol) {
      if (depth == stack.size()) return user_error("an integer expression of the launch recipe is nested too deeply");
      if (i.op == IntExpr::Op::constant) {
        stack[depth++] = i.value;
        continue;
      }
      if (i.value == other_slot) {
        stack[depth++] = other_value;
        continue;
      }
      const auto& value = slots[static_cast<size_t>(i.value)];
      if (!value) return user_error(fmt::format("'{}' uses a size that is not known yet", expression_.formula()));
      stack[depth++] = *value;
      continue;
    }
    const auto value = apply_int_op(i.op, stack[depth - 2], stack[depth - 1], expression_);
    if (!value) return value.error();
    stack[--depth - 1] = *value;
  }
  return stack[0];
}

int IntProgram::uses_of(int slot) const {
  int uses = 0;
  for (const Instruction& i : code_) uses += i.op == IntExpr::Op::symbol && i.value == slot;
  return uses;
}

}  // namespace epifuse::runtime
