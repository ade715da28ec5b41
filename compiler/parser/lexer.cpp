// Characters to tokens, by the table of tokens.def.
#include "compiler/parser/lexer.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "compiler/parser/other_words.h"

namespace epifuse {
namespace {

struct TokenRow {
  TokenKind kind;
  std::string_view name, text, description;
};

constexpr TokenRow rows[] = {
#define EPIFUSE_TOKEN(kind, text, description) {TokenKind::kind, #kind, text, description},
#include "compiler/parser/tokens.def"
#undef EPIFUSE_TOKEN
};

// The row of a word or sign that has its own; `text` is not empty.
const TokenRow* row_of(std::string_view text) {
  for (const TokenRow& row : rows) {
    // The first letter tells nearly all apart, for less than a call.
    if (row.text.size() == text.size() && row.text.front() == text.front() && row.text == text) return &row;
  }
  return nullptr;
}

// <cctype> depends on the locale; a spec does not.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Lexer {
 public:
  Lexer(const std::shared_ptr<const SourceFile>& file, Diagnostics& diagnostics)
      : file_(file), text_(file->text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    add(TokenKind::end, at_);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool more() const { return at_ < text_.size(); }

  void add(TokenKind kind, size_t begin) { tokens_.push_back({kind, begin, at_ - begin}); }

  void invalid(size_t begin, std::string message, std::string hint = "") {
    diagnostics_.error({file_, begin, at_ - begin}, std::move(message), std::move(hint));
    add(TokenKind::invalid, begin);
  }

  void step() {
    const char c = peek();
    const size_t begin = at_;
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\n') {
      ++at_;
      if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline) add(TokenKind::newline, begin);
    } else if (is_letter(c)) {
      word(begin);
    } else if (is_digit(c)) {
      number(begin);
    } else if (c == '"') {
      string(begin);
    } else {
      punctuation(begin);
    }
  }

  void word(size_t begin) {
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const TokenRow* const row = row_of(word);
    add(row ? row->kind : TokenKind::name, begin);
  }

  void number(size_t begin) {
    TokenKind kind = TokenKind::integer;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X') && is_hex_digit(peek(2))) {
      at_ += 2;
      while (is_hex_digit(peek())) ++at_;
    } else {
      while (is_digit(peek())) ++at_;
      if (peek() == '.' && is_digit(peek(1))) {
        kind = TokenKind::number;
        ++at_;
        while (is_digit(peek())) ++at_;
      }
      const bool has_sign = peek(1) == '+' || peek(1) == '-';
      if ((peek() == 'e' || peek() == 'E') && is_digit(peek(has_sign ? 2 : 1))) {
        kind = TokenKind::number;
        at_ += has_sign ? 2 : 1;
        while (is_digit(peek())) ++at_;
      }
    }
    const size_t end_of_number = at_;
    if (!is_letter(peek())) return add(kind, begin);
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    const std::string_view all = text_.substr(begin, at_ - begin);
    invalid(begin, fmt::format("'{}' is not a number", all),
            fmt::format("a product is written {}*{}", text_.substr(begin, end_of_number - begin),
                        text_.substr(end_of_number, at_ - end_of_number)));
  }

  void string(size_t begin) {
    ++at_;
    while (more() && peek() != '"' && peek() != '\n') ++at_;
    if (peek() != '"') return invalid(begin, "the string is not closed", "it ends with '\"' on the same line");
    ++at_;
    add(TokenKind::string, begin);
  }

  void punctuation(size_t begin) {
    for (const size_t length : {size_t{2}, size_t{1}}) {
      const std::string_view here = text_.substr(at_, length);
      const TokenRow* const row = here.size() == length ? row_of(here) : nullptr;
      if (!row) continue;
      at_ += length;
      return add(row->kind, begin);
    }
    // A run of such bytes (a word in another alphabet, a binary file) is one mistake.
    const auto is_foreign = [](char c) { return static_cast<unsigned char>(c) >= 0x80 || (c >= 0 && c < ' '); };
    if (is_foreign(peek())) {
      while (more() && is_foreign(peek()) && peek() != '\n') ++at_;
      return invalid(begin, "only comments may hold characters outside ASCII");
    }
    ++at_;
    invalid(begin, fmt::format("'{}' has no meaning here", text_[begin]), std::string(hint_for_sign(text_[begin])));
  }

  const std::shared_ptr<const SourceFile>& file_;
  std::string_view text_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::string_view token_description(TokenKind kind) { return rows[static_cast<size_t>(kind)].description; }

bool is_keyword(TokenKind kind) { return kind >= TokenKind::key_use && kind <= TokenKind::key_out; }

std::vector<Token> lex(const std::shared_ptr<const SourceFile>& file, Diagnostics& diagnostics) {
  return Lexer(file, diagnostics).run();
}

std::string print_tokens(const SourceFile& file, const std::vector<Token>& tokens) {
  std::string out;
  size_t line = 1, line_begin = 0, seen = 0;
  for (const Token& token : tokens) {
    for (; seen < token.offset; ++seen) {
      if (file.text[seen] != '\n') continue;
      ++line;
      line_begin = seen + 1;
    }
    out += fmt::format("{}:{} {}", line, token.offset - line_begin + 1, rows[static_cast<size_t>(token.kind)].name);
    if (token.kind != TokenKind::newline && token.length > 0)
      out += fmt::format(" {}", std::string_view(file.text).substr(token.offset, token.length));
    out += '\n';
  }
  return out;
}

}  // namespace epifuse
