// Internal to the resolver: the names that the language itself gives a meaning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace epifuse::semantics {

// A function that is called by the name of its operation and maps elements: select, min, exp, …
struct MapFunction {
  ir::Op op;
  int arity;
};
std::optional<MapFunction> map_function(std::string_view name);

// gemm, split, join, grad, hadamard, cast, sum, amax: what they take and where they may stand is said where each is
// resolved. `signature` is for messages.
struct SpecialFunction {
  std::string_view name;
  int least, most;  // arguments
  std::string_view signature;
};
const SpecialFunction* special_function(std::string_view name);

bool is_builtin_function(std::string_view name);
std::vector<std::string> builtin_functions();
std::vector<std::string> type_names();

// How something is written here whose name in other languages is `word`; empty: nothing is known of it.
std::string_view hint_for_foreign_word(std::string_view word);

// The value of a mapping function or operator on numbers, in double precision.
double evaluate(ir::Op op, const std::vector<double>& args);

}  // namespace epifuse::semantics
