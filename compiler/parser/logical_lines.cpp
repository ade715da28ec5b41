#include "compiler/parser/logical_lines.h"

#include <algorithm>

namespace epifuse {
namespace {

class LineBuilder {
 public:
  explicit LineBuilder(std::string_view text) : text_(text) {}

  std::vector<LogicalLine> run(const std::vector<Token>& tokens) {
    size_t at = 0;
    for (const Token& token : tokens) {
      if (token.kind == TokenKind::newline) continue;
      between(at, token.offset);
      if (token.kind != TokenKind::end) add({token.kind, text_.substr(token.offset, token.length)});
      at = token.offset + token.length;
    }
    return std::move(lines_);
  }

 private:
  // Blanks, line ends and comments between two tokens.
  void between(size_t begin, size_t end) {
    newlines_ = 0;
    for (size_t at = begin; at < end; ++at) {
      if (text_[at] == '\n') ++newlines_;
      if (text_[at] != '#') continue;
      const size_t line_end = std::min(text_.find('\n', at), end);
      std::string_view comment = text_.substr(at, line_end - at);
      comment = comment.substr(0, comment.find_last_not_of(" \t\r") + 1);
      add_comment(comment);
      newlines_ = 0;
      at = line_end - 1;
    }
  }

  void add_comment(std::string_view comment) {
    if (newlines_ == 0 && !lines_.empty())
      lines_.back().rows.back().comment = comment;
    else if (brackets_ > 0)
      lines_.back().rows.push_back({{}, comment});
    else
      begin_line({{}, comment});
  }

  void add(Element element) {
    const bool closes_kernel = element.kind == TokenKind::close_brace;
    if (closes_kernel) in_kernel_ = false;
    if (closes_kernel || !line_is_open_ || (brackets_ == 0 && newlines_ > 0)) {
      begin_line({{element}, {}});
      if (closes_kernel) lines_.back().blank_before = false;
    } else if (newlines_ > 0) {
      lines_.back().rows.push_back({{element}, {}});
    } else {
      lines_.back().rows.back().tokens.push_back(element);
    }
    line_is_open_ = element.kind != TokenKind::open_brace;
    in_kernel_ = in_kernel_ || element.kind == TokenKind::open_brace;
    if (element.kind == TokenKind::open_paren || element.kind == TokenKind::open_bracket) ++brackets_;
    if (element.kind == TokenKind::close_paren || element.kind == TokenKind::close_bracket) --brackets_;
  }

  void begin_line(Row row) {
    const bool opens = !lines_.empty() && ends_with_brace(lines_.back());
    lines_.push_back({{std::move(row)}, newlines_ > 1 && !lines_.empty() && !opens, in_kernel_});
  }

  static bool ends_with_brace(const LogicalLine& line) {
    return !line.is_comment() && line.rows.back().tokens.back().kind == TokenKind::open_brace;
  }

  std::string_view text_;
  std::vector<LogicalLine> lines_;
  size_t newlines_ = 0;  // since the last token or comment
  int brackets_ = 0;
  bool line_is_open_ = false;
  bool in_kernel_ = false;
};

}  // namespace

std::vector<LogicalLine> logical_lines(std::string_view text, const std::vector<Token>& tokens) {
  return LineBuilder(text).run(tokens);
}

}  // namespace epifuse
