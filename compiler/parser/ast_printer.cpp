// The printed form of the syntax tree: a spec again, so that a person who can read specs can read it.
#include <fmt/format.h>

#include "compiler/parser/ast.h"

namespace epifuse::ast {
namespace {

std::string text(const Expr& expr);

std::string join(const std::vector<Expr>& exprs) {
  std::string out;
  for (const Expr& expr : exprs) out += (out.empty() ? "" : ", ") + text(expr);
  return out;
}

std::string text(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::number:
    case Expr::Kind::name: return expr.name.text;
    case Expr::Kind::negate: return "(-" + text(expr.args[0]) + ")";
    case Expr::Kind::chain: {
      std::string out = "(" + text(expr.args[0]);
      for (size_t i = 0; i < expr.operators.size(); ++i)
        out += fmt::format(" {} {}", operator_text(expr.operators[i]), text(expr.args[i + 1]));
      return out + ")";
    }
    case Expr::Kind::call: return expr.name.text + "(" + join(expr.args) + ")";
    case Expr::Kind::index: return expr.name.text + "[" + expr.second.text + "]";
    case Expr::Kind::member: return expr.name.text + "." + expr.second.text;
  }
  return "";
}

std::string text(const Size& size) {
  if (!size.name) return std::to_string(size.times);
  return (size.times == 1 ? "" : fmt::format("{}*", size.times)) + size.name->text +
         (size.over == 1 ? "" : fmt::format("/{}", size.over));
}

std::string text(const std::vector<Size>& shape) {
  if (shape.empty()) return "";
  std::string out;
  for (const Size& size : shape) out += (out.empty() ? "[" : ", ") + text(size);
  return out + "]";
}

std::string text(const Tensor& tensor) {
  std::string options;
  for (const Option& option : tensor.options)
    options += fmt::format("{}{} = {}", options.empty() ? "(" : ", ", option.name.text, option.value.text);
  return tensor.type.text + (options.empty() ? "" : options + ")") + text(tensor.pointers) + text(tensor.shape);
}

std::string text(const std::vector<Name>& names) {
  std::string out;
  for (const Name& name : names) out += (out.empty() ? "" : ", ") + name.text;
  return out;
}

struct StatementText {
  std::string operator()(const Dim& dim) const {
    std::string out;
    for (const Dim::Item& item : dim.items)
      out += (out.empty() ? "" : ", ") + item.name.text + (item.value ? fmt::format(" = {}", *item.value) : "");
    return (dim.dynamic ? "dyn " : "dim ") + out;
  }
  std::string operator()(const Group& group) const {
    std::string out = fmt::format("group {} by {}", group.name.text, group.by.text);
    if (group.sizes) out += " " + group.sizes->text;
    if (group.storage) out += " " + group.storage->text;
    if (group.align) out += fmt::format(" align {}", *group.align);
    if (group.slot) out += " slot " + text(*group.slot);
    return out;
  }
  std::string operator()(const Aligned& group) const {
    return fmt::format("group {} = {} align {}", group.name.text, group.base.text, group.align);
  }
  std::string operator()(const Param& param) const {
    return "param " + param.name.text + (param.value ? " = " + text(*param.value) : "");
  }
  std::string operator()(const Const& constant) const {
    return fmt::format("const {} = {}", constant.name.text, text(constant.value));
  }
  std::string operator()(const In& in) const {
    return fmt::format("in {} : {}", in.name.text, text(in.tensor)) +
           (in.default_value ? fmt::format(" = {}", in.default_where.text()) : "");
  }
  std::string operator()(const Out& out) const {
    return fmt::format("out {} : {} {} {}", out.name.text, text(out.tensor), out.accumulate ? "+=" : "=",
                       text(out.value));
  }
  std::string operator()(const Let& let) const { return text(let.names) + " = " + text(let.value); }
  std::string operator()(const Broken& broken) const { return "# could not be read: " + text(broken.names); }
};

}  // namespace

std::string_view operator_text(Operator op) {
  constexpr std::string_view texts[] = {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="};
  return texts[static_cast<size_t>(op)];
}

std::string print(const File& file) {
  std::string out;
  for (const Use& use : file.uses) out += fmt::format("use \"{}\"\n", use.path);
  for (const Const& constant : file.constants) out += StatementText()(constant) + "\n";
  for (const Function& function : file.functions)
    out += fmt::format("fn {}({}) = {}\n", function.name.text, text(function.params), text(function.body));
  for (const Kernel& kernel : file.kernels) {
    out += fmt::format("kernel {} {{\n", kernel.name.text);
    for (const Statement& statement : kernel.statements) out += "  " + std::visit(StatementText(), statement) + "\n";
    out += "}\n";
  }
  return out;
}

}  // namespace epifuse::ast
