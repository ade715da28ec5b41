// Internal to the parser: expressions, sizes and tensors, which stand inside statements.
#pragma once

#include "compiler/parser/ast.h"
#include "compiler/parser/token_stream.h"

namespace epifuse {

ast::Expr parse_expression(TokenStream& tokens);
ast::Size parse_size(TokenStream& tokens);
ast::Tensor parse_tensor(TokenStream& tokens);

}  // namespace epifuse
