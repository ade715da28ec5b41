// Recovery is the delicate part: a forgotten bracket must not swallow the statements behind it, so a line that looks
// like a new statement is one, whatever is open.
#include "compiler/parser/token_stream.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace epifuse {

TokenStream::TokenStream(std::shared_ptr<const SourceFile> file, Diagnostics& diagnostics)
    : file_(std::move(file)), diagnostics_(diagnostics), tokens_(lex(file_, diagnostics)) {}

const Token& TokenStream::peek() {
  while (brackets_ > 0 && tokens_[at_].kind == TokenKind::newline) ++at_;
  return tokens_[at_];
}

const Token& TokenStream::take() {
  const Token& token = peek();
  if (token.kind == TokenKind::open_paren || token.kind == TokenKind::open_bracket) ++brackets_;
  const bool closes = token.kind == TokenKind::close_paren || token.kind == TokenKind::close_bracket;
  if (closes && brackets_ > 0) --brackets_;
  last_ = at_;
  if (token.kind != TokenKind::end) ++at_;
  return token;
}

bool TokenStream::take_if(TokenKind kind) {
  if (!is(kind)) return false;
  take();
  return true;
}

const Token& TokenStream::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) fail_expected(what.empty() ? token_description(kind) : what);
  return take();
}

ast::Name TokenStream::expect_name(std::string_view what) {
  if (is_keyword(kind()))
    fail(span(peek()), fmt::format("'{}' is a keyword, expected {}", text(peek()), what), "keywords name nothing else");
  const Token& token = expect(TokenKind::name, what);
  return {std::string(text(token)), span(token)};
}

int64_t TokenStream::expect_integer(std::string_view what) { return integer_value(expect(TokenKind::integer, what)); }

void TokenStream::expect_line_end() {
  if (is(TokenKind::end) || is(TokenKind::close_brace)) return;
  if (!is(TokenKind::newline)) fail_expected("the end of the line");
  take();
}

void TokenStream::skip_newlines() {
  while (is(TokenKind::newline)) take();
}

void TokenStream::fail_expected(std::string_view what, std::string hint) {
  const Token& token = peek();
  if (token.kind == TokenKind::invalid) throw SyntaxErrorReported{};
  if (const size_t next = swallowed_statement(); next < at_) {
    const Token& before = tokens_[next - 2];  // and the line's end
    fail({file_, before.offset + before.length, 1}, "a bracket is open at the end of the line", std::move(hint));
  }
  // At the end of a line the place that lacks something is behind the last token, not on the next line.
  const bool on_next_line = at_ > statement_ && starts_line(at_);  // inside a bracket that was not closed
  const bool at_end = token.kind == TokenKind::newline || token.kind == TokenKind::end || on_next_line;
  Span where = span(token);
  if (at_end && at_ > 0) where = {file_, tokens_[last_].offset + tokens_[last_].length, 1};
  const TokenKind end = on_next_line ? TokenKind::newline : token.kind;
  const std::string found = at_end ? std::string(token_description(end)) : fmt::format("'{}'", text(token));
  fail(where, fmt::format("expected {}, found {}", what, found), std::move(hint));
}

void TokenStream::fail(const Span& where, std::string message, std::string hint) {
  diagnostics_.error(where, std::move(message), std::move(hint));
  throw SyntaxErrorReported{};
}

void TokenStream::begin_statement() {
  brackets_ = 0;
  statement_ = at_;
}

bool TokenStream::starts_line(size_t index) const {
  return index == 0 || tokens_[index - 1].kind == TokenKind::newline;
}

// A keyword, or `a, b =`: what a forgotten bracket swallows.
bool TokenStream::looks_like_statement(size_t index) const {
  if (is_keyword(tokens_[index].kind) || tokens_[index].kind == TokenKind::close_brace) return true;
  while (tokens_[index].kind == TokenKind::name) {
    const TokenKind next = tokens_[index + 1].kind;  // `end` is last, so there is a next one
    if (next == TokenKind::assign) return true;
    if (next != TokenKind::comma) return false;
    index += 2;
  }
  return false;
}

// The first line since the statement began that looks like a new one; beyond the position: none.
size_t TokenStream::swallowed_statement() const {
  size_t index = statement_ + 1;
  while (index <= at_ && !(starts_line(index) && looks_like_statement(index))) ++index;
  return index;
}

std::vector<ast::Name> TokenStream::names_in_line() const {
  std::vector<ast::Name> names;
  for (size_t i = at_; tokens_[i].kind != TokenKind::newline && tokens_[i].kind != TokenKind::end; ++i)
    if (tokens_[i].kind == TokenKind::name) names.push_back({std::string(text(tokens_[i])), span(tokens_[i])});
  return names;
}

void TokenStream::recover() {
  brackets_ = 0;
  if (const size_t next = swallowed_statement(); next <= at_) {
    at_ = next;
    return;
  }
  const bool stopped_at_line_start = at_ > statement_ && starts_line(at_);
  if (!stopped_at_line_start) {
    while (!is(TokenKind::newline) && !is(TokenKind::end) && !is(TokenKind::close_brace)) ++at_;
  }
  skip_newlines();
}

Span TokenStream::span_from(size_t offset) const {
  const size_t end = tokens_[last_].offset + tokens_[last_].length;
  return {file_, offset, end > offset ? end - offset : 0};
}

int64_t TokenStream::integer_value(const Token& token) {
  std::string_view digits = text(token);
  const bool hex = digits.size() > 2 && (digits[1] == 'x' || digits[1] == 'X');
  if (hex) digits.remove_prefix(2);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(span(token), fmt::format("{} does not fit 64 bits", text(token)));
  return value;
}

double TokenStream::number_value(const Token& token) {
  const std::string_view digits = text(token);
  if (token.kind == TokenKind::integer && digits.size() > 2 && (digits[1] == 'x' || digits[1] == 'X'))
    return static_cast<double>(integer_value(token));
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // A number too small for a double is reported as out of range too: nothing but zero was meant to be that small.
  if (error != std::errc() || end != digits.data() + digits.size() || std::fabs(value) > 3.4028234663852886e38)
    fail(span(token), fmt::format("{} is out of the range of f32", digits));
  return value;
}

}  // namespace epifuse
