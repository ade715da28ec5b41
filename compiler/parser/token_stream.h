// Internal to the parser: the position in the tokens, what was expected there, and where to go on after a mistake.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/parser/ast.h"
#include "compiler/parser/lexer.h"

namespace epifuse {

// Leaves a statement whose mistake is reported; caught in the parser at the statement's start, never beyond it.
struct SyntaxErrorReported {};

class TokenStream {
 public:
  TokenStream(std::shared_ptr<const SourceFile> file, Diagnostics& diagnostics);

  // The next token. Line ends inside ( ) and [ ] do not exist.
  const Token& peek();
  TokenKind kind() { return peek().kind; }
  bool is(TokenKind kind) { return peek().kind == kind; }
  bool is_word(std::string_view word) { return is(TokenKind::name) && text(peek()) == word; }

  const Token& take();
  bool take_if(TokenKind kind);
  const Token& expect(TokenKind kind, std::string_view what = "");
  ast::Name expect_name(std::string_view what);
  int64_t expect_integer(std::string_view what);
  // The end of a line, of the file, or a '}' that stays.
  void expect_line_end();
  void skip_newlines();

  // Reports what was expected at the next token, and leaves the statement. A token that the lexer has reported already
  // is not reported again.
  [[noreturn]] void fail_expected(std::string_view what, std::string hint = "");
  [[noreturn]] void fail(const Span& where, std::string message, std::string hint = "");

  // Marks the start of a statement: recover() goes back to the first line after it that looks like a new one, or goes
  // on to the next line.
  void begin_statement();
  void recover();
  // The names from here to the end of the line, which stay: what a list that went wrong was about to define.
  std::vector<ast::Name> names_in_line() const;

  Span span(const Token& token) const { return {file_, token.offset, token.length}; }
  Span span_from(size_t offset) const;  // from there to the end of the last token taken
  std::string_view text(const Token& token) const {
    return std::string_view(file_->text).substr(token.offset, token.length);
  }
  double number_value(const Token& token);
  int64_t integer_value(const Token& token);

  const std::shared_ptr<const SourceFile>& file() const { return file_; }
  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  bool starts_line(size_t index) const;
  bool looks_like_statement(size_t index) const;
  size_t swallowed_statement() const;

  std::shared_ptr<const SourceFile> file_;
  Diagnostics& diagnostics_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t last_ = 0;       // the last token taken
  size_t statement_ = 0;  // where the statement began
  int brackets_ = 0;
};

}  // namespace epifuse
