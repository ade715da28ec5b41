// Works on tokens and not on the tree, so that comments, brackets and numbers stay as they were written: first the
// blanks between the tokens of a line, then the columns that lines share, then the text.
#include "compiler/parser/format.h"

#include <algorithm>
#include <utility>

#include "base/ensure.h"
#include "compiler/parser/logical_lines.h"
#include "compiler/parser/parser.h"

namespace epifuse {
namespace {

constexpr size_t name_width = 9;       // of "in  prob ", which short names are padded to
constexpr size_t comment_column = 38;  // where comments behind lines stand, if there is room
constexpr size_t line_width = 120;
constexpr size_t indentation = 2;

bool opens(TokenKind kind) { return kind == TokenKind::open_paren || kind == TokenKind::open_bracket; }
bool closes(TokenKind kind) { return kind == TokenKind::close_paren || kind == TokenKind::close_bracket; }
bool assigns(TokenKind kind) { return kind == TokenKind::assign || kind == TokenKind::accumulate; }

// Whether a '-' behind such a token is a sign.
bool expects_operand(TokenKind kind) {
  return opens(kind) || assigns(kind) || kind == TokenKind::comma ||
         (kind >= TokenKind::plus && kind <= TokenKind::not_equal);
}

// The blanks behind a statement's keyword: names of dimensions stand below each other, and names of tensors do.
size_t gap_behind_keyword(TokenKind keyword, bool in_kernel) {
  if (keyword == TokenKind::key_dim || keyword == TokenKind::key_dyn) return 3;
  return in_kernel && keyword == TokenKind::key_in ? 2 : 1;
}

// Decides the blanks between the tokens of one line.
class Spacing {
 public:
  explicit Spacing(LogicalLine& line) : line_(line) {}

  void run() {
    for (Row& row : line_.rows)
      for (Element& element : row.tokens) {
        element.gap = &element == &row.tokens.front() ? 0 : gap(element);
        follow(element);
      }
  }

 private:
  struct Bracket {
    bool is_size = false;   // of a shape
    bool has_size = false;  // hadamard(v, 2*D): a size behind the comma
  };

  size_t gap(const Element& here) const {
    if (before_ == line_.first() && is_keyword(before_) && count_ == 1)
      return gap_behind_keyword(before_, line_.in_kernel);
    if (opens(before_) || before_ == TokenKind::dot || behind_sign_) return 0;
    if (closes(here.kind) || here.kind == TokenKind::comma || here.kind == TokenKind::dot) return 0;
    if (here.kind == TokenKind::open_bracket) return 0;
    if (here.kind == TokenKind::open_paren && before_ == TokenKind::name) return 0;
    const auto is_product = [](TokenKind kind) { return kind == TokenKind::star || kind == TokenKind::slash; };
    return in_size() && (is_product(here.kind) || is_product(before_)) ? 0 : 1;
  }

  void follow(const Element& here) {
    behind_sign_ = here.kind == TokenKind::minus && expects_operand(before_);
    if (opens(here.kind)) brackets_.push_back({here.kind == TokenKind::open_bracket, word_ == "hadamard"});
    if (closes(here.kind) && !brackets_.empty()) brackets_.pop_back();
    if (here.kind == TokenKind::comma && !brackets_.empty())
      brackets_.back().is_size = brackets_.back().is_size || std::exchange(brackets_.back().has_size, false);
    if (line_.first() == TokenKind::key_group && here.text == "slot") behind_slot_ = true;
    before_ = here.kind;
    word_ = here.text;
    ++count_;
  }

  bool in_size() const { return behind_slot_ || (!brackets_.empty() && brackets_.back().is_size); }

  LogicalLine& line_;
  TokenKind before_ = TokenKind::assign;
  std::string_view word_;
  std::vector<Bracket> brackets_;
  int count_ = 0;
  bool behind_sign_ = false, behind_slot_ = false;
};

size_t width(const std::vector<Element>& tokens, size_t begin, size_t end) {
  size_t sum = 0;
  for (size_t i = begin; i < end; ++i) sum += tokens[i].gap + tokens[i].text.size();
  return sum;
}

// The first token of the first row outside brackets that `is` one; the number of tokens when there is none.
template <class Is>
size_t find_outside(const std::vector<Element>& tokens, const Is& is) {
  int brackets = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (opens(tokens[i].kind)) ++brackets;
    if (closes(tokens[i].kind)) --brackets;
    if (brackets == 0 && is(tokens[i].kind)) return i;
  }
  return tokens.size();
}

// Lines up the ':' of in and out with the '=' of values.
void align_names(std::vector<LogicalLine*> statements) {
  struct Separator {
    Element* element;
    size_t width;
  };
  std::vector<Separator> separators;
  size_t widest = name_width;
  for (LogicalLine* line : statements) {
    const TokenKind first = line->first();
    const bool is_tensor = first == TokenKind::key_in || first == TokenKind::key_out;
    if (!is_tensor && first != TokenKind::name) continue;
    std::vector<Element>& tokens = line->rows.front().tokens;
    const size_t at = find_outside(
        tokens, [&](TokenKind kind) { return is_tensor ? kind == TokenKind::colon : kind == TokenKind::assign; });
    separators.push_back({&tokens[at], width(tokens, 0, at)});
    widest = std::max(widest, separators.back().width);
  }
  for (const Separator& separator : separators) separator.element->gap = widest + 1 - separator.width;
}

// Lines up the assignments of outputs that follow each other, and of params and constants.
class AssignmentRuns {
 public:
  void add(LogicalLine& line) {
    const TokenKind kind = line.first() == TokenKind::key_const ? TokenKind::key_param : line.first();
    if (line.blank_before || kind != kind_) end_run();
    kind_ = kind;
    if (kind != TokenKind::key_out && kind != TokenKind::key_param) return;
    std::vector<Element>& tokens = line.rows.front().tokens;
    const size_t at = find_outside(tokens, assigns);
    if (at == tokens.size()) return;
    // A type with options is much longer than others, which are not to be drawn apart by it.
    const bool has_options = std::any_of(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                         [](const Element& e) { return e.kind == TokenKind::open_paren; });
    if (has_options != has_options_) end_run();
    has_options_ = has_options;
    members_.push_back({&tokens[at], width(tokens, 0, at) + tokens[at].text.size()});
  }

  void end_run() {
    size_t widest = 0;
    for (const Member& member : members_) widest = std::max(widest, member.width);
    for (const Member& member : members_) member.element->gap += widest - member.width;
    members_.clear();
  }

 private:
  struct Member {
    Element* element;
    size_t width;  // with the assignment
  };
  TokenKind kind_ = TokenKind::end;
  bool has_options_ = false;
  std::vector<Member> members_;
};

void align(std::vector<LogicalLine>& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<LogicalLine*> kernel;
    for (; i < lines.size() && lines[i].in_kernel; ++i) kernel.push_back(&lines[i]);
    align_names(kernel);
    AssignmentRuns runs;
    for (LogicalLine* line : kernel) runs.add(*line);
    runs.end_run();
  }
}

struct TextRow {
  std::string code;
  std::string_view comment;
};

// The rows of a line, what continues a bracket standing below its first element.
std::vector<TextRow> render(const LogicalLine& line) {
  struct Bracket {
    size_t row_begin;  // the column where the row begins in which the bracket stands
    size_t column;     // of what stands below it
    bool ends_row;
  };
  std::vector<Bracket> brackets;
  std::vector<TextRow> rows;
  for (const Row& row : line.rows) {
    size_t begin = line.in_kernel ? indentation : 0;
    if (!brackets.empty()) {
      const Bracket& bracket = brackets.back();
      const bool is_closed = !row.tokens.empty() && closes(row.tokens.front().kind);
      begin = bracket.ends_row ? bracket.row_begin + (is_closed ? 0 : 2 * indentation)
                               : bracket.column - (is_closed ? 1 : 0);
    }
    TextRow text{std::string(begin, ' '), row.comment};
    for (const Element& element : row.tokens) {
      text.code += std::string(element.gap, ' ') + std::string(element.text);
      if (opens(element.kind)) brackets.push_back({begin, text.code.size(), &element == &row.tokens.back()});
      if (closes(element.kind) && !brackets.empty()) brackets.pop_back();
    }
    rows.push_back(std::move(text));
  }
  return rows;
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

class Writer {
 public:
  void line(const LogicalLine& line) {
    if (line.blank_before) {
      end_run();
      out_ += '\n';
    }
    for (TextRow& row : render(line)) {
      const bool has_code = row.code.find_first_not_of(' ') != std::string::npos;
      if (has_code && !row.comment.empty()) {
        commented_.push_back(std::move(row));
        continue;
      }
      end_run();
      out_ += row.code + std::string(row.comment) + '\n';
    }
  }

  std::string finish() {
    end_run();
    return std::move(out_);
  }

 private:
  // Comments behind lines that follow each other stand in one column.
  void end_run() {
    size_t column = 0;
    for (const TextRow& row : commented_) column = std::max(column, row.code.size() + 1);
    const bool has_room = std::all_of(commented_.begin(), commented_.end(), [](const TextRow& row) {
      return comment_column + characters(row.comment) <= line_width;
    });
    if (has_room) column = std::max(column, comment_column);
    for (const TextRow& row : commented_)
      out_ += row.code + std::string(column - row.code.size(), ' ') + std::string(row.comment) + '\n';
    commented_.clear();
  }

  std::string out_;
  std::vector<TextRow> commented_;
};

// Formatting moves tokens and changes none: looked at each time, since the result replaces what a person wrote.
bool same_tokens(std::string_view before, const std::vector<Token>& tokens, const std::string& after) {
  Diagnostics ignored;
  const auto file = std::make_shared<const SourceFile>(SourceFile{"", after});
  const auto words = [](std::string_view text, const std::vector<Token>& all) {
    std::vector<std::string_view> found;
    for (const Token& token : all)
      if (token.kind != TokenKind::newline) found.push_back(text.substr(token.offset, token.length));
    return found;
  };
  return words(before, tokens) == words(file->text, lex(file, ignored));
}

}  // namespace

std::optional<std::string> format_spec(const std::shared_ptr<const SourceFile>& file, Diagnostics& diagnostics) {
  const size_t known = diagnostics.all().size();
  parse(file, diagnostics);
  if (diagnostics.all().size() != known) return std::nullopt;
  const std::vector<Token> tokens = lex(file, diagnostics);
  std::vector<LogicalLine> lines = logical_lines(file->text, tokens);
  for (LogicalLine& line : lines) Spacing(line).run();
  align(lines);
  Writer writer;
  for (const LogicalLine& line : lines) writer.line(line);
  std::string text = writer.finish();
  EPIFUSE_ENSURE(same_tokens(file->text, tokens, text), "the formatter changed more than blanks");
  return text;
}

}  // namespace epifuse
