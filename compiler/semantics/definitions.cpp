// Bodies are checked where they stand, so that a function nobody calls is right too, and one that is wrong is reported
// once and not at every call.
#include "compiler/semantics/definitions.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "compiler/ir/types.h"
#include "compiler/semantics/builtins.h"
#include "compiler/semantics/operators.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;

std::string place(const Span& where) {
  return where.file ? fmt::format("{}:{}", where.file->name, where.begin().line) : std::string("elsewhere");
}

class Collector {
 public:
  Collector(const Program& program, Reporter& report) : program_(program), report_(report) {}

  Definitions run() {
    // A used file comes before its user, so a constant finds those it is made of.
    visit(0);
    for (const int unit : order_) {
      for (const ast::Function& function : program_.units[unit].tree.functions) add_function(unit, function);
      for (const ast::Name& name : program_.units[unit].tree.broken) definitions_.broken.push_back(name.text);
    }
    for (const int unit : order_) check_functions(unit);
    find_recursion();
    for (const int unit : order_)
      for (const ast::Const& constant : program_.units[unit].tree.constants) add_constant(unit, constant);
    check_bodies();
    return std::move(definitions_);
  }

 private:
  void visit(int unit) {
    if (!visited_.insert(unit).second) return;
    for (const int used : program_.units[unit].uses)
      if (used >= 0) visit(used);
    order_.push_back(unit);
  }

  // The files whose definitions `unit` sees.
  std::set<int> seen_from(int unit) const {
    std::set<int> seen;
    std::vector<int> open = {unit};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (next < 0 || !seen.insert(next).second) continue;
      for (const int used : program_.units[next].uses) open.push_back(used);
    }
    return seen;
  }

  bool name_is_free(const ast::Name& name) {
    if (is_builtin_function(name.text)) {
      report_.error(name.where, fmt::format("'{}' is a function of the language", name.text), "choose another name");
    } else if (ir::parse_format(name.text)) {
      report_.error(name.where, fmt::format("'{}' is a type", name.text), "choose another name");
    } else if (const auto owner = owners_.find(name.text); owner != owners_.end()) {
      report_.error(name.where, fmt::format("'{}' is defined already, in {}", name.text, place(owner->second)),
                    "a name has one definition, also through use");
    } else {
      owners_[name.text] = name.where;
      return true;
    }
    // Whoever uses it meant this definition.
    if (owners_.count(name.text) == 0) definitions_.broken.push_back(name.text);
    return false;
  }

  void add_function(int unit, const ast::Function& function) {
    if (!name_is_free(function.name)) return;
    definitions_.functions[function.name.text] = {&function, true};
    units_[function.name.text] = unit;
    std::set<std::string> params;
    for (const ast::Name& param : function.params) {
      if (params.insert(param.text).second) continue;
      report_.error(param.where, fmt::format("'{}' is a parameter already", param.text));
      definitions_.functions[function.name.text].sound = false;
    }
  }

  void add_constant(int unit, const ast::Const& constant) {
    const std::set<int> seen = seen_from(unit);
    const auto lookup = [&](std::string_view name) -> std::optional<std::optional<double>> {
      if (definitions_.is_broken(name)) return std::optional<double>();
      const auto known = definitions_.constants.find(name);
      if (known == definitions_.constants.end() || seen.count(units_.at(known->first)) == 0) return std::nullopt;
      return known->second.value;
    };
    const std::optional<double> value = evaluate_constant(constant.value, lookup, definitions_, report_);
    if (!name_is_free(constant.name)) return;
    definitions_.constants[constant.name.text] = {constant.name.where, value};
    units_[constant.name.text] = unit;
  }

  // Calls in bodies: the function exists where it is called, and takes as many arguments.
  void check_functions(int unit) {
    const std::set<int> seen = seen_from(unit);
    for (const ast::Function& function : program_.units[unit].tree.functions) {
      bool sound = true;
      check_calls(function.body, function, seen, sound);
      const auto known = definitions_.functions.find(function.name.text);
      if (!sound && known != definitions_.functions.end() && known->second.tree == &function)
        known->second.sound = false;
    }
  }

  void check_calls(const Expr& expr, const ast::Function& in, const std::set<int>& seen, bool& sound) {
    for (const Expr& arg : expr.args) check_calls(arg, in, seen, sound);
    if (expr.kind == Expr::Kind::member || expr.kind == Expr::Kind::index) {
      report_.error(expr.where, "a function's body has only its parameters, constants, numbers and functions",
                    expr.kind == Expr::Kind::index ? "give the indexed value as an argument" : "");
      sound = false;
    }
    if (expr.kind != Expr::Kind::call) return;
    const std::string& name = expr.name.text;
    if (name == "sum" || name == "amax" || name == "split" || name == "hadamard") {
      report_.error(expr.where, fmt::format("'{}' cannot stand in a function", name),
                    name == "split" ? "it gives two values, a function gives one" : "it belongs to a kernel");
      sound = false;
      return;
    }
    if (special_function(name) != nullptr) return;  // checked where it is inlined
    const auto function = definitions_.functions.find(name);
    const std::optional<MapFunction> builtin = map_function(name);
    if (!builtin && (function == definitions_.functions.end() || seen.count(units_.at(name)) == 0)) {
      if (!definitions_.is_broken(name)) report_unknown_function(expr.name, definitions_, report_);
      sound = false;
      return;
    }
    const size_t arity = builtin ? static_cast<size_t>(builtin->arity) : function->second.tree->params.size();
    if (expr.args.size() == arity) return;
    report_.error(expr.where, fmt::format("'{}' takes {} argument{}, not {}", name, arity, arity == 1 ? "" : "s",
                                          expr.args.size()));
    sound = false;
  }

  void find_recursion() {
    for (const auto& [name, function] : definitions_.functions) {
      std::vector<const Expr*> open = {&function.tree->body};
      std::set<std::string> called;
      while (!open.empty()) {
        const Expr* expr = open.back();
        open.pop_back();
        for (const Expr& arg : expr->args) open.push_back(&arg);
        if (expr->kind != Expr::Kind::call || !called.insert(expr->name.text).second) continue;
        const auto next = definitions_.functions.find(expr->name.text);
        if (next != definitions_.functions.end()) open.push_back(&next->second.tree->body);
      }
      if (called.count(name) == 0) continue;
      report_.error(function.tree->name.where, fmt::format("the function '{}' calls itself", name),
                    "functions are inlined, so a call must come to an end");
      recursive_.insert(name);
    }
    for (const std::string& name : recursive_) definitions_.functions[name].sound = false;
  }

  // Names in bodies; after the constants are known. A body that calls an unsound function is unsound itself.
  void check_bodies() {
    for (auto& [name, function] : definitions_.functions) {
      const std::set<int> seen = seen_from(units_.at(name));
      if (!check_names(function.tree->body, *function.tree, seen)) function.sound = false;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [name, function] : definitions_.functions) {
        if (!function.sound || !calls_unsound(function.tree->body)) continue;
        function.sound = false;
        changed = true;
      }
    }
  }

  bool check_names(const Expr& expr, const ast::Function& in, const std::set<int>& seen) {
    bool sound = true;
    for (size_t i = 0; i < expr.args.size(); ++i) {
      const bool is_type = expr.kind == Expr::Kind::call && expr.name.text == "cast" && i == 1;
      if (!is_type) sound = check_names(expr.args[i], in, seen) && sound;
    }
    if (expr.kind != Expr::Kind::name) return sound;
    const std::string& name = expr.name.text;
    std::vector<std::string> names;
    for (const ast::Name& param : in.params) names.push_back(param.text);
    if (std::find(names.begin(), names.end(), name) != names.end() || definitions_.is_broken(name))
      return sound && !definitions_.is_broken(name);
    for (const auto& [constant, definition] : definitions_.constants)
      if (seen.count(units_.at(constant)) != 0) names.push_back(constant);
    const auto constant = std::find(names.begin(), names.end(), name);
    if (constant != names.end()) return sound && definitions_.constants.at(name).value.has_value();
    const bool is_function = is_builtin_function(name) || definitions_.functions.count(name) != 0;
    report_.error(expr.where, fmt::format("'{}' is neither a parameter of '{}' nor a constant", name, in.name.text),
                  is_function ? fmt::format("'{}' is a function: call it", name) : did_you_mean(name, names));
    return false;
  }

  bool calls_unsound(const Expr& expr) const {
    if (expr.kind == Expr::Kind::call) {
      const auto function = definitions_.functions.find(expr.name.text);
      if (function != definitions_.functions.end() && !function->second.sound) return true;
    }
    return std::any_of(expr.args.begin(), expr.args.end(), [&](const Expr& arg) { return calls_unsound(arg); });
  }

  const Program& program_;
  Reporter& report_;
  Definitions definitions_;
  std::set<int> visited_;
  std::vector<int> order_;
  std::map<std::string, Span> owners_;
  std::map<std::string, int, std::less<>> units_;  // of functions and constants
  std::set<std::string> recursive_;
};

// What was probably meant: a function that is here, one of the library, or one that has another name elsewhere.
std::string hint_for_function(const std::string& name, const Definitions& definitions) {
  std::vector<std::string> here = builtin_functions(), names;
  for (const auto& [function, definition] : definitions.functions) here.push_back(function);
  std::map<std::string, std::string> files;  // of functions that are there for a `use`
  for (const LibraryFunction& function : library_functions())
    if (definitions.functions.count(function.name) == 0) files[function.name] = function.file;
  if (const auto file = files.find(name); file != files.end())
    return fmt::format("the library has it: use \"{}\"", file->second);
  // Several functions may refine one name (name_a, name_b): then all of them are meant.
  const auto refines = [&](const std::string& known) { return known.starts_with(name + "_"); };
  std::copy_if(here.begin(), here.end(), std::back_inserter(names), refines);
  if (!names.empty()) return fmt::format("there are: {}", fmt::join(names, ", "));
  std::string file_of_all;
  for (const auto& [known, file] : files) {
    if (!refines(known)) continue;
    names.push_back(known);
    file_of_all = file;
  }
  if (!names.empty()) return fmt::format("the library has {}: use \"{}\"", fmt::join(names, ", "), file_of_all);
  if (const std::string_view elsewhere = hint_for_foreign_word(name); !elsewhere.empty()) return std::string(elsewhere);
  names = here;
  for (const auto& [known, file] : files) names.push_back(known);
  const std::string near = did_you_mean(name, names);
  const auto file = std::find_if(files.begin(), files.end(), [&](const auto& known) {
    return near == fmt::format("did you mean '{}'?", known.first);
  });
  return file == files.end() ? near : fmt::format("{} The library has it: use \"{}\"", near, file->second);
}

}  // namespace

bool Definitions::is_broken(std::string_view name) const {
  return std::find(broken.begin(), broken.end(), name) != broken.end();
}

Definitions collect_definitions(const Program& program, Reporter& report) { return Collector(program, report).run(); }

void report_unknown_function(const ast::Name& name, const Definitions& definitions, Reporter& report) {
  report.error(name.where, fmt::format("there is no function '{}'", name.text),
               hint_for_function(name.text, definitions));
}

}  // namespace epifuse::semantics
