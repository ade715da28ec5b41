// Internal to the resolver: the functions and constants of a program. They belong to files, and a file sees its own and
// those of the files it uses, directly or not.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/parser/program.h"
#include "compiler/semantics/reporter.h"

namespace epifuse::semantics {

struct FunctionDefinition {
  const ast::Function* tree = nullptr;
  bool sound = true;  // names and numbers of arguments are right all the way down; otherwise reported, and not inlined
};

struct ConstantDefinition {
  Span where;
  std::optional<double> value;  // nothing: reported
};

struct Definitions {
  std::map<std::string, FunctionDefinition, std::less<>> functions;
  std::map<std::string, ConstantDefinition, std::less<>> constants;
  std::vector<std::string> broken;  // names that stand in lines that could not be read

  bool is_broken(std::string_view name) const;
};

// Everything that the main file sees, checked: one definition a name, no name of the language, no function that calls
// itself, every name in a body known.
Definitions collect_definitions(const Program& program, Reporter& report);

// The error for a call of a function that does not exist, with the best hint there is.
void report_unknown_function(const ast::Name& name, const Definitions& definitions, Reporter& report);

// The number that an expression of numbers, constants and functions is. What is not constant is reported. `lookup`
// gives the constants in sight; nullopt: not a constant, an empty inner value: reported already.
using ConstantLookup = std::function<std::optional<std::optional<double>>(std::string_view)>;
std::optional<double> evaluate_constant(const ast::Expr& expr, const ConstantLookup& lookup,
                                        const Definitions& definitions, Reporter& report);

}  // namespace epifuse::semantics
