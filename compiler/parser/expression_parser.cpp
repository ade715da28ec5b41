// Recursive descent for expressions, sizes and tensors. Its depth is bounded here, for all that walk the tree later.
#include "compiler/parser/expression_parser.h"

#include <fmt/format.h>
#include <optional>

#include "compiler/parser/other_words.h"
#include "compiler/parser/parser.h"

namespace epifuse {
namespace {

using ast::Expr;
using ast::Operator;

std::optional<Operator> sum_operator(TokenKind kind) {
  if (kind == TokenKind::plus) return Operator::add;
  if (kind == TokenKind::minus) return Operator::sub;
  return std::nullopt;
}

std::optional<Operator> product_operator(TokenKind kind) {
  if (kind == TokenKind::star) return Operator::mul;
  if (kind == TokenKind::slash) return Operator::div;
  return std::nullopt;
}

std::optional<Operator> comparison(TokenKind kind) {
  switch (kind) {
    case TokenKind::less: return Operator::less;
    case TokenKind::less_equal: return Operator::less_equal;
    case TokenKind::greater: return Operator::greater;
    case TokenKind::greater_equal: return Operator::greater_equal;
    case TokenKind::equal: return Operator::equal;
    case TokenKind::not_equal: return Operator::not_equal;
    default: return std::nullopt;
  }
}

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Expr expression() {
    if (++depth_ > max_nesting)
      tokens_.fail(tokens_.span(tokens_.peek()), fmt::format("nested deeper than {} levels", max_nesting),
                   "name a part of the expression");
    Expr result = chain(comparison, &ExpressionParser::sum);
    if (result.operators.size() > 1 && is_comparison(result.operators[1]))
      tokens_.fail(result.args[2].where, "comparisons do not chain", "select(a < b, b < c, 0) is 1 where both hold");
    --depth_;
    return result;
  }

 private:
  static bool is_comparison(Operator op) { return op >= Operator::less; }

  Expr sum() { return chain(sum_operator, &ExpressionParser::term); }
  Expr term() { return chain(product_operator, &ExpressionParser::factor); }

  // part { op part }, as one node.
  Expr chain(std::optional<Operator> (*op_of)(TokenKind), Expr (ExpressionParser::*part)()) {
    const size_t begin = tokens_.peek().offset;
    Expr first = (this->*part)();
    std::optional<Operator> op = op_of(tokens_.kind());
    if (!op) return first;
    Expr result;
    result.kind = Expr::Kind::chain;
    result.args.push_back(std::move(first));
    while (op) {
      tokens_.take();
      if (*op == Operator::mul && tokens_.is(TokenKind::star))
        tokens_.fail_expected("an expression", std::string(hint_for_sign('^')));
      result.operators.push_back(*op);
      result.args.push_back((this->*part)());
      op = op_of(tokens_.kind());
    }
    result.where = tokens_.span_from(begin);
    return result;
  }

  Expr factor() {
    const size_t begin = tokens_.peek().offset;
    if (!tokens_.take_if(TokenKind::minus)) return atom();
    Expr result;
    result.kind = Expr::Kind::negate;
    result.args.push_back(atom());
    result.where = tokens_.span_from(begin);
    return result;
  }

  Expr atom() {
    const Token token = tokens_.peek();
    Expr result;
    switch (token.kind) {
      case TokenKind::integer:
      case TokenKind::number:
        tokens_.take();
        result.number = tokens_.number_value(token);
        result.name = {std::string(tokens_.text(token)), tokens_.span(token)};
        break;
      case TokenKind::open_paren:
        tokens_.take();
        result = expression();
        close(TokenKind::close_paren, token, "')' or an operator");
        break;
      case TokenKind::name: result = named(); break;
      default: tokens_.fail_expected("an expression");
    }
    result.where = tokens_.span_from(token.offset);
    return result;
  }

  Expr named() {
    Expr result;
    result.kind = Expr::Kind::name;
    result.name = tokens_.expect_name("a name");
    if (tokens_.is(TokenKind::open_paren)) {
      const Token open = tokens_.take();
      result.kind = Expr::Kind::call;
      if (!tokens_.is(TokenKind::close_paren)) {
        result.args.push_back(expression());
        while (tokens_.take_if(TokenKind::comma)) result.args.push_back(expression());
      }
      close(TokenKind::close_paren, open, "',' or ')'");
    } else if (tokens_.is(TokenKind::open_bracket)) {
      const Token open = tokens_.take();
      result.kind = Expr::Kind::index;
      result.second = tokens_.expect_name("the name of an index tensor");
      close(TokenKind::close_bracket, open, "']'");
    } else if (tokens_.take_if(TokenKind::dot)) {
      result.kind = Expr::Kind::member;
      result.second = tokens_.expect_name("'ends'");
    }
    return result;
  }

  void close(TokenKind kind, const Token& open, std::string_view what) {
    if (!tokens_.is(kind))
      tokens_.fail_expected(
          what, fmt::format("the '{}' stands in line {}", tokens_.text(open), tokens_.span(open).begin().line));
    tokens_.take();
  }

  TokenStream& tokens_;
  int depth_ = 0;
};

std::vector<ast::Size> parse_shape(TokenStream& tokens) {
  std::vector<ast::Size> shape;
  tokens.expect(TokenKind::open_bracket);
  if (tokens.is(TokenKind::close_bracket)) tokens.fail_expected("a dimension", "a scalar has no brackets: f32");
  shape.push_back(parse_size(tokens));
  while (tokens.take_if(TokenKind::comma)) shape.push_back(parse_size(tokens));
  tokens.expect(TokenKind::close_bracket, "',' or ']'");
  return shape;
}

ast::Option parse_option(TokenStream& tokens) {
  ast::Option option;
  option.name = tokens.expect_name("an option");
  tokens.expect(TokenKind::assign);
  if (!tokens.is(TokenKind::integer) && !tokens.is(TokenKind::number) && !tokens.is(TokenKind::name))
    tokens.fail_expected("a name or a number");
  const Token& value = tokens.take();
  option.value = {std::string(tokens.text(value)), tokens.span(value)};
  return option;
}

}  // namespace

Expr parse_expression(TokenStream& tokens) { return ExpressionParser(tokens).expression(); }

ast::Size parse_size(TokenStream& tokens) {
  ast::Size size;
  const size_t begin = tokens.peek().offset;
  if (tokens.is(TokenKind::integer)) {
    const Token& token = tokens.take();
    size.times = tokens.integer_value(token);
    if (size.times < 1) tokens.fail(tokens.span(token), "a size is at least 1");
    if (tokens.take_if(TokenKind::star)) size.name = tokens.expect_name("a dimension");
  } else {
    size.name = tokens.expect_name("a dimension or a whole number");
  }
  if (size.name && tokens.is(TokenKind::star))
    tokens.fail_expected("',' or ']'", "in a size the number comes first: 2*I");
  if (size.name && tokens.take_if(TokenKind::slash)) {
    size.over = tokens.expect_integer("a whole number");
    if (size.over < 1) tokens.fail(tokens.span_from(begin), "a size is divided by at least 1");
  }
  size.where = tokens.span_from(begin);
  return size;
}

ast::Tensor parse_tensor(TokenStream& tokens) {
  ast::Tensor tensor;
  const size_t begin = tokens.peek().offset;
  tensor.type = tokens.expect_name("a type");
  if (tokens.take_if(TokenKind::open_paren)) {
    tensor.options.push_back(parse_option(tokens));
    while (tokens.take_if(TokenKind::comma)) tensor.options.push_back(parse_option(tokens));
    tokens.expect(TokenKind::close_paren, "',' or ')'");
  }
  if (tokens.is(TokenKind::open_bracket)) tensor.shape = parse_shape(tokens);
  if (tokens.is(TokenKind::open_bracket)) {
    tensor.pointers = std::move(tensor.shape);
    tensor.shape = parse_shape(tokens);
  }
  tensor.where = tokens.span_from(begin);
  return tensor;
}

}  // namespace epifuse
