// Internal to the formatter: a spec as the lines it is made of, with the comments that the lexer drops.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/parser/lexer.h"

namespace epifuse {

struct Element {
  TokenKind kind;
  std::string_view text;
  size_t gap = 0;  // blanks before it, once they are decided
};

// A line as it stands in the file: one row of a statement, or a comment of its own.
struct Row {
  std::vector<Element> tokens;  // empty: a comment of its own
  std::string_view comment;     // with its '#', without blanks at its end; empty: none
};

// A statement, a line with '{' or '}', or a comment. Line ends inside ( ) and [ ] give it several rows.
struct LogicalLine {
  std::vector<Row> rows;  // at least one
  bool blank_before = false;
  bool in_kernel = false;  // between braces

  bool is_comment() const { return rows.front().tokens.empty(); }
  TokenKind first() const { return is_comment() ? TokenKind::end : rows.front().tokens.front().kind; }
};

// The lines of a text that parses without mistakes. What is returned points into the text.
std::vector<LogicalLine> logical_lines(std::string_view text, const std::vector<Token>& tokens);

}  // namespace epifuse
