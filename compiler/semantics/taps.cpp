#include "compiler/semantics/taps.h"

#include <algorithm>
#include <fmt/format.h>

#include "compiler/ir/memory_order.h"

namespace epifuse::semantics {
namespace {

std::string_view what_it_is(Meaning meaning) {
  switch (meaning) {
    case Meaning::dimension: return "a dimension";
    case Meaning::param: return "a param";
    case Meaning::constant: return "a constant";
    case Meaning::input: return "an input";
    case Meaning::value:
    case Meaning::unknown: break;
  }
  return "unknown";
}

// The names of all values, for hints.
std::vector<std::string> values_of(const KernelContext& context) {
  std::vector<std::string> names;
  for (const auto& [name, where] : context.defined_below)
    if (const Symbol* symbol = context.find(name); symbol != nullptr && symbol->meaning == Meaning::value)
      names.push_back(name);
  return names;
}

std::string free_name(const KernelContext& context, std::string name) {
  const auto taken = [&] {
    return context.find(name) != nullptr || std::any_of(context.graph.outputs.begin(), context.graph.outputs.end(),
                                                        [&](const ir::Output& o) { return o.tensor.name == name; });
  };
  while (taken()) name += "_";
  return name;
}

}  // namespace

void add_taps(KernelContext& context, const ast::Kernel& kernel) {
  for (const std::string& name : context.options.taps) {
    const Symbol* symbol = context.find(name);
    if (symbol == nullptr) {
      context.report.error(kernel.name.where,
                           fmt::format("kernel '{}' has no value '{}' to tap", kernel.name.text, name),
                           did_you_mean(name, values_of(context)));
    } else if (symbol->meaning == Meaning::value) {
      ir::Output output;
      output.value = symbol->id;
      output.tensor.name = free_name(context, name + "_tap");
      output.tensor.shape = ir::memory_order(context.graph, symbol->id);
      output.tensor.where = symbol->where;
      context.graph.outputs.push_back(std::move(output));
    } else if (symbol->meaning != Meaning::unknown) {
      context.report.error(symbol->where, fmt::format("'{}' is {}, and a tap shows a value that the kernel defines",
                                                      name, what_it_is(symbol->meaning)));
    }
  }
}

}  // namespace epifuse::semantics
