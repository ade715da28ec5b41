// Names of a kernel and the growing graph.
#include "compiler/semantics/context.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "compiler/semantics/builtins.h"
#include "compiler/semantics/operators.h"

namespace epifuse::semantics {
namespace {

std::string_view meaning_text(Meaning meaning) {
  switch (meaning) {
    case Meaning::dimension: return "a dimension";
    case Meaning::param: return "a param";
    case Meaning::constant: return "a constant";
    case Meaning::input: return "an input";
    case Meaning::value:
    case Meaning::unknown: break;
  }
  return "defined";
}

}  // namespace

bool KernelContext::define(const ast::Name& name, Symbol symbol) {
  symbol.where = name.where;
  std::string taken;
  if (is_builtin_function(name.text)) taken = "a function of the language";
  if (ir::parse_format(name.text)) taken = "a type";
  if (const auto function = definitions.functions.find(name.text); function != definitions.functions.end())
    taken = fmt::format("a function ({}:{})", function->second.tree->name.where.file->name,
                        function->second.tree->name.where.begin().line);
  if (const auto constant = definitions.constants.find(name.text); constant != definitions.constants.end())
    taken = fmt::format("a constant ({}:{})", constant->second.where.file->name, constant->second.where.begin().line);
  if (const auto known = symbols_.find(name.text); known != symbols_.end())
    taken = fmt::format("{} already (line {})", meaning_text(known->second.meaning), known->second.where.begin().line);
  if (taken.empty()) {
    symbols_[name.text] = symbol;
    return true;
  }
  report.error(name.where, fmt::format("'{}' is {}", name.text, taken), "every name has one definition in a kernel");
  return false;
}

const Symbol* KernelContext::find(std::string_view name) const {
  const auto symbol = symbols_.find(name);
  return symbol == symbols_.end() ? nullptr : &symbol->second;
}

ConstantLookup KernelContext::constants() const {
  return [this](std::string_view name) -> std::optional<std::optional<double>> {
    if (definitions.is_broken(name)) return std::optional<double>();
    if (const Symbol* symbol = find(name)) {
      if (symbol->meaning == Meaning::constant) return std::optional<double>(symbol->number);
      if (symbol->meaning == Meaning::unknown) return std::optional<double>();
      return std::nullopt;
    }
    const auto known = definitions.constants.find(name);
    if (known == definitions.constants.end()) return std::nullopt;
    return known->second.value;
  };
}

void KernelContext::report_unknown_name(const ast::Name& name) const {
  if (definitions.is_broken(name.text)) return;
  const auto say = [&](std::string message, std::string hint = "") {
    report.error(name.where, std::move(message), std::move(hint));
  };
  if (const Symbol* symbol = find(name.text)) {
    if (symbol->meaning == Meaning::dimension)
      say(fmt::format("'{}' is a dimension, not a value", name.text),
          "a number in an expression is a const or a param");
    return;
  }
  if (definitions.functions.count(name.text) != 0 || is_builtin_function(name.text))
    return say(fmt::format("'{}' is a function, not a value", name.text), fmt::format("call it: {}(...)", name.text));
  if (ir::parse_format(name.text)) return say(fmt::format("'{}' is a type, not a value", name.text));
  if (const auto below = defined_below.find(name.text); below != defined_below.end())
    return say(fmt::format("'{}' is defined below, in line {}", name.text, below->second.begin().line),
               "a value is defined before it is used");
  for (const OutputName& output : output_names)
    if (output.name.text == name.text)
      return say(fmt::format("'{}' is an output, which cannot be read", name.text),
                 "give the value a name of its own and store that");
  std::vector<std::string> names;
  for (const auto& [known, symbol] : symbols_)
    if (symbol.meaning != Meaning::dimension) names.push_back(known);
  for (const auto& [known, constant] : definitions.constants) names.push_back(known);
  // Constants of libraries may be what was meant, but are too many to list.
  std::string otherwise;
  for (const auto& [known, symbol] : symbols_)
    if (symbol.meaning != Meaning::dimension && symbol.meaning != Meaning::unknown)
      otherwise += (otherwise.empty() ? "what can be read here: " : ", ") + known;
  constexpr size_t longest_list = 80;
  if (otherwise.size() > longest_list) otherwise.clear();
  say(fmt::format("'{}' is not defined", name.text), did_you_mean(name.text, names, otherwise));
}

ir::NodeId KernelContext::add(ir::Node node) {
  std::vector<int64_t> key = {static_cast<int64_t>(node.op),
                              node.index,
                              node.piece,
                              static_cast<int64_t>(node.to),
                              node.along.times,
                              node.along.dim,
                              node.along.over,
                              node.promote,
                              node.dim,
                              node.signs ? static_cast<int64_t>(*node.signs) : -1,
                              std::bit_cast<int64_t>(node.number)};
  key.insert(key.end(), node.args.begin(), node.args.end());
  const auto [known, is_new] = known_nodes_.emplace(std::move(key), static_cast<ir::NodeId>(graph.nodes.size()));
  if (!is_new) return known->second;
  if (static_cast<int64_t>(graph.nodes.size()) >= max_nodes && !gave_up) {
    report.error(node.where, fmt::format("the kernel grows beyond {} operations", max_nodes),
                 "functions are inlined at every call");
    gave_up = true;
  }
  graph.nodes.push_back(std::move(node));
  return known->second;
}

}  // namespace epifuse::semantics
