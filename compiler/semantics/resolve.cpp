// The walk over a kernel: dimensions, then the statements in their order, then what only the whole shows.
#include "compiler/semantics/resolve.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/semantics/context.h"
#include "compiler/semantics/dimensions.h"
#include "compiler/semantics/limits.h"
#include "compiler/semantics/stores.h"
#include "compiler/semantics/taps.h"
#include "compiler/semantics/tensors.h"
#include "compiler/semantics/values.h"

namespace epifuse {
namespace semantics {
namespace {

class KernelResolver {
 public:
  KernelResolver(KernelContext& context, const ast::Kernel& kernel) : context_(context), kernel_(kernel) {}

  void run() {
    context_.graph.name = kernel_.name.text;
    for (const ast::Statement& statement : kernel_.statements) {
      if (const auto* let = std::get_if<ast::Let>(&statement))
        for (const ast::Name& name : let->names) context_.defined_below.emplace(name.text, name.where);
      if (const auto* in = std::get_if<ast::In>(&statement))
        context_.defined_below.emplace(in->name.text, in->name.where);
      if (const auto* broken = std::get_if<ast::Broken>(&statement))
        for (const ast::Name& name : broken->names)
          if (context_.find(name.text) == nullptr) context_.define(name, {});
    }
    define_dimensions(context_, kernel_);
    for (const ast::Statement& statement : kernel_.statements) std::visit(*this, statement);
    for (const ast::In* in : inputs_)
      if (const Symbol* symbol = context_.find(in->name.text); symbol->meaning == Meaning::input)
        check_option_inputs(context_, in->tensor, context_.graph.inputs[symbol->id].tensor);
    add_taps(context_, kernel_);
    check_limits(context_, kernel_.name);
    check_kernel(context_, kernel_);
  }

  void operator()(const ast::Dim&) {}
  void operator()(const ast::Group&) {}
  void operator()(const ast::Aligned&) {}
  void operator()(const ast::Broken&) {}

  void operator()(const ast::Param& param) {
    Symbol symbol{Meaning::param, static_cast<int>(context_.graph.params.size())};
    ir::Param result{param.name.text, std::nullopt, param.name.where};
    if (param.value) {
      result.default_value = constant(*param.value);
      if (!result.default_value) symbol = {};
    }
    if (context_.define(param.name, symbol) && symbol.meaning == Meaning::param)
      context_.graph.params.push_back(std::move(result));
  }

  void operator()(const ast::Const& constant) {
    const std::optional<double> value = this->constant(constant.value);
    context_.define(constant.name, value ? Symbol{Meaning::constant, -1, *value} : Symbol{});
  }

  void operator()(const ast::In& in) {
    ir::Input input;
    std::optional<ir::Tensor> tensor = resolve_tensor(context_, in.tensor, Direction::in);
    if (tensor && in.default_value &&
        (tensor->type.format == ir::Format::i32 || tensor->type.format == ir::Format::i64)) {
      context_.report.error(in.default_where, "an input of integers has no default", "it is an index or a seed");
      tensor.reset();
    }
    if (!tensor) {
      context_.define(in.name, {});
      return;
    }
    if (!context_.define(in.name, {Meaning::input, static_cast<int>(context_.graph.inputs.size())})) return;
    input.tensor = std::move(*tensor);
    input.tensor.name = in.name.text;
    input.tensor.where = in.name.where;
    input.default_value = in.default_value;
    input.left_out = in.default_value && context_.options.left_out.count(in.name.text) != 0;
    context_.graph.inputs.push_back(std::move(input));
    inputs_.push_back(&in);
  }

  void operator()(const ast::Out& out) { resolve_output(context_, out); }

  void operator()(const ast::Let& let) {
    const std::vector<ir::NodeId> values = let.names.size() == 1
                                               ? std::vector{resolve_value(context_, let.value)}
                                               : resolve_values(context_, let.value, let.names.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool known = values[i] != unknown_value;
      if (!context_.define(let.names[i], known ? Symbol{Meaning::value, values[i]} : Symbol{}) || !known) continue;
      ir::Node& node = context_.graph.nodes[values[i]];
      const bool is_leaf = node.args.empty();  // has a name of its own
      if (node.name.empty() && !is_leaf) node.name = let.names[i].text;
    }
  }

 private:
  std::optional<double> constant(const ast::Expr& expr) {
    return evaluate_constant(expr, context_.constants(), context_.definitions, context_.report);
  }

  KernelContext& context_;
  const ast::Kernel& kernel_;
  std::vector<const ast::In*> inputs_;
};

const ast::Kernel* find_kernel(const Program& program, std::string_view name, Diagnostics& diagnostics) {
  const std::vector<ast::Kernel>& kernels = program.main().kernels;
  if (name.empty() && kernels.size() == 1) return &kernels[0];
  for (const ast::Kernel& kernel : kernels)
    if (kernel.name.text == name) return &kernel;
  const std::vector<std::string> names = kernel_names(program);
  const Span file{program.main().source, 0, 0};
  if (kernels.empty()) {
    // When lines could not be read, the kernel may be among them.
    if (!diagnostics.has_errors()) diagnostics.error(file, "the file has no kernel");
  } else if (name.empty()) {
    diagnostics.error(file, fmt::format("the file has {} kernels, and none was named", kernels.size()),
                      fmt::format("its kernels: {}", fmt::join(names, ", ")));
  } else {
    diagnostics.error(file, fmt::format("the file has no kernel '{}'", name),
                      did_you_mean(name, names, fmt::format("its kernels: {}", fmt::join(names, ", "))));
  }
  return nullptr;
}

void check_kernel_names(const Program& program, Reporter& report) {
  std::map<std::string, Span> seen;
  for (const ast::Kernel& kernel : program.main().kernels)
    if (const auto [known, is_new] = seen.emplace(kernel.name.text, kernel.name.where); !is_new)
      report.error(kernel.name.where,
                   fmt::format("'{}' is a kernel already (line {})", kernel.name.text, known->second.begin().line));
}

bool has_dim(const ast::Kernel& kernel, std::string_view name) {
  for (const ast::Statement& statement : kernel.statements)
    if (const auto* dims = std::get_if<ast::Dim>(&statement); dims != nullptr && !dims->dynamic)
      for (const ast::Dim::Item& item : dims->items)
        if (item.name.text == name) return true;
  return false;
}

ResolveOptions options_for(const ast::Kernel& kernel, const ast::File& file, const ResolveOptions& options) {
  ResolveOptions own = options;
  std::erase_if(own.dims, [&](const auto& dim) {
    return !has_dim(kernel, dim.first) && std::any_of(file.kernels.begin(), file.kernels.end(),
                                                      [&](const auto& other) { return has_dim(other, dim.first); });
  });
  return own;
}

}  // namespace
}  // namespace semantics

std::vector<std::string> kernel_names(const Program& program) {
  std::vector<std::string> names;
  for (const ast::Kernel& kernel : program.main().kernels) names.push_back(kernel.name.text);
  return names;
}

std::optional<ir::Graph> resolve(const Program& program, std::string_view kernel_name, const ResolveOptions& options,
                                 Diagnostics& diagnostics) {
  semantics::Reporter report(diagnostics);
  const semantics::Definitions definitions = semantics::collect_definitions(program, report);
  semantics::check_kernel_names(program, report);
  const ast::Kernel* kernel = semantics::find_kernel(program, kernel_name, diagnostics);
  if (kernel == nullptr) return std::nullopt;
  semantics::KernelContext context(definitions, options, report);
  semantics::KernelResolver(context, *kernel).run();
  if (diagnostics.has_errors()) return std::nullopt;
  const std::vector<std::string> faults = ir::verify(context.graph);
  EPIFUSE_ENSURE(faults.empty(),
                 fmt::format("the resolved kernel '{}' is not sound: {}", kernel->name.text, fmt::join(faults, "; ")));
  return std::move(context.graph);
}

ResolveOptions options_for(const Program& program, std::string_view kernel_name, const ResolveOptions& options) {
  for (const ast::Kernel& kernel : program.main().kernels)
    if (kernel.name.text == kernel_name) return semantics::options_for(kernel, program.main(), options);
  return options;
}

void check(const Program& program, const ResolveOptions& options, Diagnostics& diagnostics) {
  // By the trees and not by name: two kernels of one name are both looked at.
  semantics::Reporter report(diagnostics);
  const semantics::Definitions definitions = semantics::collect_definitions(program, report);
  semantics::check_kernel_names(program, report);
  if (program.main().kernels.empty()) semantics::find_kernel(program, "", diagnostics);
  for (const ast::Kernel& kernel : program.main().kernels) {
    const ResolveOptions own = semantics::options_for(kernel, program.main(), options);
    semantics::KernelContext context(definitions, own, report);
    semantics::KernelResolver(context, kernel).run();
  }
}

}  // namespace epifuse
