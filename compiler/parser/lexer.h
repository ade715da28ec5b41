// The lexer: a spec's text to tokens. It never fails: what is no token is reported once and becomes an `invalid` token,
// so that the parser can go on at the next line.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

namespace epifuse {

enum class TokenKind {
#define EPIFUSE_TOKEN(kind, text, description) kind,
#include "compiler/parser/tokens.def"
#undef EPIFUSE_TOKEN
};

struct Token {
  TokenKind kind = TokenKind::end;
  size_t offset = 0;  // into the file's text
  size_t length = 0;
};

// How messages call a token of this kind: "'('", "a name".
std::string_view token_description(TokenKind kind);
bool is_keyword(TokenKind kind);

// The tokens of a file; the last one is `end`. Comments and blanks are gone; a run of line ends is one `newline`, and
// none stands at the very start. Brackets are not looked at: whether a newline counts is the parser's business.
std::vector<Token> lex(const std::shared_ptr<const SourceFile>& file, Diagnostics& diagnostics);

// One token a line, "line:column kind text": the form of --emit=tokens.
std::string print_tokens(const SourceFile& file, const std::vector<Token>& tokens);

}  // namespace epifuse
