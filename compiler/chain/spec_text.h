// Internal to chain: parts of the syntax tree as text again, with as few brackets as were written.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/parser/ast.h"

namespace epifuse::chain {

// A text with the names that it mentions, so that what it needs can be declared.
struct Text {
  std::string text;
  std::set<std::string> names;
};

// What to write in place of an expression; nothing: the expression itself.
using Replacement = std::function<std::optional<std::string>(const ast::Expr&)>;

// How tightly an expression has to bind where it stands.
enum class Binding { comparison, sum, product, factor, atom };

Text expression_text(const ast::Expr& expr, const Replacement& replacement = {}, Binding least = Binding::comparison);
Text size_text(const ast::Size& size);
Text tensor_text(const ast::Tensor& tensor);

// A tensor of a plain type over the names of a value.
ast::Tensor plain_tensor(std::string type, const ir::Graph& graph, const ir::Shape& shape);

ast::Expr name_expression(std::string name);

}  // namespace epifuse::chain
