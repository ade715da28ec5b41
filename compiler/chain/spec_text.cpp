#include "compiler/chain/spec_text.h"

#include <fmt/format.h>

namespace epifuse::chain {
namespace {

using ast::Expr;

Binding binding_of(const Expr& expr) {
  if (expr.kind == Expr::Kind::negate) return Binding::factor;
  if (expr.kind != Expr::Kind::chain) return Binding::atom;
  switch (expr.operators[0]) {
    case ast::Operator::add:
    case ast::Operator::sub: return Binding::sum;
    case ast::Operator::mul:
    case ast::Operator::div: return Binding::product;
    default: return Binding::comparison;
  }
}

Binding tighter(Binding binding) { return static_cast<Binding>(static_cast<int>(binding) + 1); }

class ExpressionPrinter {
 public:
  ExpressionPrinter(const Replacement& replacement, std::set<std::string>& names)
      : replacement_(replacement), names_(names) {}

  std::string print(const Expr& expr, Binding least) {
    if (const std::optional<std::string> replaced = replacement_ ? replacement_(expr) : std::nullopt) {
      names_.insert(*replaced);
      return *replaced;
    }
    const std::string text = plain(expr);
    return binding_of(expr) < least ? "(" + text + ")" : text;
  }

 private:
  std::string plain(const Expr& expr) {
    if (expr.kind != Expr::Kind::number && !expr.name.text.empty()) names_.insert(expr.name.text);
    switch (expr.kind) {
      case Expr::Kind::number:
      case Expr::Kind::name: return expr.name.text;
      case Expr::Kind::negate: return "-" + print(expr.args[0], Binding::atom);
      case Expr::Kind::chain: {
        const Binding inner = tighter(binding_of(expr));
        std::string out = print(expr.args[0], inner);
        for (size_t i = 0; i < expr.operators.size(); ++i)
          out += fmt::format(" {} {}", ast::operator_text(expr.operators[i]), print(expr.args[i + 1], inner));
        return out;
      }
      case Expr::Kind::call: {
        std::string args;
        for (const Expr& arg : expr.args) args += (args.empty() ? "" : ", ") + print(arg, Binding::comparison);
        return fmt::format("{}({})", expr.name.text, args);
      }
      case Expr::Kind::index:
        names_.insert(expr.second.text);
        return fmt::format("{}[{}]", expr.name.text, expr.second.text);
      case Expr::Kind::member: return fmt::format("{}.{}", expr.name.text, expr.second.text);
    }
    return "";
  }

  const Replacement& replacement_;
  std::set<std::string>& names_;
};

void append_shape(Text& text, const std::vector<ast::Size>& shape) {
  if (shape.empty()) return;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Text size = size_text(shape[i]);
    text.text += (i == 0 ? "[" : ", ") + size.text;
    text.names.insert(size.names.begin(), size.names.end());
  }
  text.text += "]";
}

}  // namespace

Text expression_text(const Expr& expr, const Replacement& replacement, Binding least) {
  Text result;
  result.text = ExpressionPrinter(replacement, result.names).print(expr, least);
  return result;
}

Text size_text(const ast::Size& size) {
  if (!size.name) return {std::to_string(size.times), {}};
  return {fmt::format("{}{}{}", size.times == 1 ? "" : fmt::format("{}*", size.times), size.name->text,
                      size.over == 1 ? "" : fmt::format("/{}", size.over)),
          {size.name->text}};
}

Text tensor_text(const ast::Tensor& tensor) {
  Text result{tensor.type.text, {}};
  for (size_t i = 0; i < tensor.options.size(); ++i) {
    const ast::Option& option = tensor.options[i];
    result.text += fmt::format("{}{} = {}", i == 0 ? "(" : ", ", option.name.text, option.value.text);
    result.names.insert(option.value.text);
  }
  if (!tensor.options.empty()) result.text += ")";
  append_shape(result, tensor.pointers);
  append_shape(result, tensor.shape);
  return result;
}

ast::Tensor plain_tensor(std::string type, const ir::Graph& graph, const ir::Shape& shape) {
  ast::Tensor tensor;
  tensor.type.text = std::move(type);
  for (const ir::Extent& extent : shape) {
    ast::Size size;
    size.times = extent.times;
    size.over = extent.over;
    if (extent.dim >= 0) size.name = ast::Name{graph.dims[extent.dim].name, {}};
    tensor.shape.push_back(std::move(size));
  }
  return tensor;
}

Expr name_expression(std::string name) {
  Expr expr;
  expr.kind = Expr::Kind::name;
  expr.name.text = std::move(name);
  return expr;
}

}  // namespace epifuse::chain
