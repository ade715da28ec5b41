// Internal to the resolver: what the operators of the language mean in the IR, and the bounds on inlining.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/parser/ast.h"

namespace epifuse::semantics {

// Functions may call functions, so a few lines can mean 2^100 calls: more than this many in one kernel, or nesting
// so deep, is an error. The last bounds the stack.
constexpr int64_t max_inlined_calls = 20000;
constexpr int64_t max_nodes = 100000;
constexpr int max_inlined_nesting = 1000;  // levels of expressions through all the bodies they call

// a > b is b < a: two comparisons of order are enough.
struct OperatorMeaning {
  ir::Op op;
  bool swapped = false;
};

inline OperatorMeaning operator_meaning(ast::Operator op) {
  switch (op) {
    case ast::Operator::add: return {ir::Op::add};
    case ast::Operator::sub: return {ir::Op::sub};
    case ast::Operator::mul: return {ir::Op::mul};
    case ast::Operator::div: return {ir::Op::div};
    case ast::Operator::less: return {ir::Op::less};
    case ast::Operator::less_equal: return {ir::Op::less_equal};
    case ast::Operator::greater: return {ir::Op::less, true};
    case ast::Operator::greater_equal: return {ir::Op::less_equal, true};
    case ast::Operator::equal: return {ir::Op::equal};
    case ast::Operator::not_equal: break;
  }
  return {ir::Op::not_equal};
}

}  // namespace epifuse::semantics
