#include "compiler/chain/kernel_text.h"

#include <fmt/format.h>

namespace epifuse::chain {
namespace {

void merge(Text& to, const Text& part) {
  to.text += part.text;
  to.names.insert(part.names.begin(), part.names.end());
}

struct DeclarationText {
  Text operator()(const ast::Group& group) const {
    Text text{fmt::format("group {} by {}", group.name.text, group.by.text), {group.by.text}};
    if (group.sizes) text.text += " " + group.sizes->text;
    if (group.storage) text.text += " " + group.storage->text;
    if (group.align) text.text += fmt::format(" align {}", *group.align);
    if (group.slot) {
      text.text += " slot ";
      merge(text, size_text(*group.slot));
    }
    return text;
  }
  Text operator()(const ast::Aligned& group) const {
    return {fmt::format("group {} = {} align {}", group.name.text, group.base.text, group.align), {group.base.text}};
  }
  Text operator()(const ast::Param& param) const {
    Text text{"param " + param.name.text, {}};
    if (param.value) {
      text.text += " = ";
      merge(text, expression_text(*param.value));
    }
    return text;
  }
  Text operator()(const ast::Const& constant) const {
    Text text{fmt::format("const {} = ", constant.name.text), {}};
    merge(text, expression_text(constant.value));
    return text;
  }
  template <class Other>
  Text operator()(const Other&) const {
    return {};
  }
};

// The name that a declaration declares; empty for other statements, dims among them.
std::string declared(const ast::Statement& statement) {
  if (const auto* group = std::get_if<ast::Group>(&statement)) return group->name.text;
  if (const auto* group = std::get_if<ast::Aligned>(&statement)) return group->name.text;
  if (const auto* param = std::get_if<ast::Param>(&statement)) return param->name.text;
  if (const auto* constant = std::get_if<ast::Const>(&statement)) return constant->name.text;
  return "";
}

}  // namespace

Text declaration_text(const ast::Statement& statement) { return std::visit(DeclarationText(), statement); }

std::string Names::make(const std::string& wish, const std::string& kernel) {
  if (taken_.insert(wish).second) return wish;
  const std::string base = kernel.empty() ? wish : wish + "_" + kernel;
  std::string name = base;
  for (int number = 2; !taken_.insert(name).second; ++number) name = fmt::format("{}_{}", base, number);
  return name;
}

void KernelText::input(const ForwardKernel& origin, const ast::In& in, const std::string& name) {
  // A type's options may name inputs too: the maximum of nvfp4.
  for (const ast::Option& option : in.tensor.options)
    if (const ast::In* other = origin.input(option.value.text); other != nullptr) input(origin, *other);
  input(name, in.tensor, in.default_value ? std::string(in.default_where.text()) : "");
}

void KernelText::input(const std::string& name, const ast::Tensor& tensor, const std::string& default_value) {
  if (!inputs_.insert(name).second) return;
  const Text text = tensor_text(tensor);
  mention(text);
  input_lines_ += fmt::format("in {} : {}{}\n", name, text.text, default_value.empty() ? "" : " = " + default_value);
}

void KernelText::value(const std::string& names, const Text& expr) {
  mention(expr);
  value_lines_ += fmt::format("{} = {}\n", names, expr.text);
}

void KernelText::values_for(ForwardKernel& origin, const Text& text, const Replacement& stand_in) {
  for (const std::string& name : text.names) {
    if (has_input(name)) continue;
    const ast::Let* let = origin.values.definition(name);
    if (let == nullptr) {
      if (const ast::In* in = origin.input(name)) input(origin, *in);
      continue;
    }
    if (!written_.insert(let).second) continue;
    const Text definition = expression_text(let->value, stand_in);
    values_for(origin, definition, stand_in);
    std::string names;
    for (const ast::Name& defined : let->names) names += (names.empty() ? "" : ", ") + defined.text;
    value(names, definition);
  }
}

void KernelText::output(const std::string& name, const ast::Tensor& tensor, const std::string& assign,
                        const Text& value) {
  const Text text = tensor_text(tensor);
  mention(text);
  mention(value);
  output_names_ += (output_names_.empty() ? "" : ", ") + name;
  outputs_.push_back(fmt::format("out {} : {} {} {}\n", name, text.text, assign, value.text));
}

// What is mentioned, and what those declarations mention in turn.
std::set<std::string> KernelText::declared_names() const {
  std::set<std::string> names = mentions_;
  for (size_t before = 0; before != names.size();) {
    before = names.size();
    for (const ForwardKernel* origin : origins_)
      for (const ast::Statement& statement : origin->tree->statements)
        if (names.count(declared(statement)) != 0) names.merge(declaration_text(statement).names);
  }
  return names;
}

std::string KernelText::text() const {
  const std::set<std::string> names = declared_names();
  std::string dims, dyns, groups, params;
  std::set<std::string> seen;
  for (const ForwardKernel* origin : origins_)
    for (const ast::Statement& statement : origin->tree->statements) {
      if (const auto* dim = std::get_if<ast::Dim>(&statement)) {
        std::string& list = dim->dynamic ? dyns : dims;
        for (const ast::Dim::Item& item : dim->items)
          if (names.count(item.name.text) != 0 && seen.insert(item.name.text).second)
            list += fmt::format("{}{}{}", list.empty() ? "" : ", ", item.name.text,
                                item.value ? fmt::format(" = {}", *item.value) : "");
        continue;
      }
      const std::string name = declared(statement);
      if (name.empty() || names.count(name) == 0 || !seen.insert(name).second) continue;
      const bool is_number =
          std::holds_alternative<ast::Param>(statement) || std::holds_alternative<ast::Const>(statement);
      (is_number ? params : groups) += declaration_text(statement).text + "\n";
    }
  std::string outputs;
  for (const std::string& output : outputs_) outputs += output;
  return fmt::format("{}kernel {} {{\n{}{}{}{}{}{}{}}}\n", comments_, name_, dims.empty() ? "" : "dim " + dims + "\n",
                     dyns.empty() ? "" : "dyn " + dyns + "\n", groups, params, input_lines_, value_lines_, outputs);
}

}  // namespace epifuse::chain
