// Files, kernels and statements. Each statement is guarded: what goes wrong in it is reported and ends with it.
#include "compiler/parser/parser.h"

#include <fmt/format.h>

#include "compiler/parser/expression_parser.h"
#include "compiler/parser/other_words.h"
#include "compiler/parser/token_stream.h"

namespace epifuse {
namespace {

constexpr int64_t language_version = 1;

class Parser {
 public:
  Parser(std::shared_ptr<const SourceFile> file, Diagnostics& diagnostics) : tokens_(file, diagnostics) {
    file_.source = std::move(file);
  }

  ast::File run() {
    tokens_.skip_newlines();
    if (tokens_.is_word("language")) guarded([&] { language_line(); }, [] {});
    for (tokens_.skip_newlines(); !tokens_.is(TokenKind::end); tokens_.skip_newlines()) item();
    return std::move(file_);
  }

 private:
  // Runs `parse`; when it finds a mistake, `broken` keeps what is known and parsing goes on at the next line.
  template <class Parse, class Broken>
  void guarded(const Parse& parse, const Broken& broken) {
    tokens_.begin_statement();
    try {
      parse();
    } catch (const SyntaxErrorReported&) {
      broken();
      tokens_.recover();
    }
  }

  void language_line() {
    tokens_.take();
    const Token& token = tokens_.expect(TokenKind::integer, "a whole number");
    const int64_t version = tokens_.integer_value(token);
    if (version != language_version)
      tokens_.fail(tokens_.span(token), fmt::format("language {} is not known", version),
                   fmt::format("this Epifuse reads language {}", language_version));
    tokens_.expect_line_end();
  }

  void item() {
    names_.clear();
    const auto keep_names = [&] { file_.broken.insert(file_.broken.end(), names_.begin(), names_.end()); };
    const bool was_stray = in_stray_lines_;
    in_stray_lines_ = false;
    switch (tokens_.kind()) {
      case TokenKind::key_use: return guarded([&] { use(); }, keep_names);
      case TokenKind::key_fn: return guarded([&] { function(); }, keep_names);
      case TokenKind::key_const:
        return guarded(
            [&] {
              file_.constants.push_back(constant());
              tokens_.expect_line_end();
            },
            keep_names);
      case TokenKind::key_kernel: return kernel();
      default: break;
    }
    // After a misplaced '}' every line of the kernel's rest would be reported: the first one says it all.
    in_stray_lines_ = true;
    guarded(
        [&] {
          if (was_stray) throw SyntaxErrorReported{};
          const bool is_name = tokens_.is(TokenKind::name), of_kernel = is_name || is_keyword(tokens_.kind());
          const std::string near = is_name ? hint_for_keyword(tokens_.text(tokens_.peek())) : "";
          tokens_.fail_expected("'use', 'fn', 'const' or 'kernel'",
                                !near.empty() ? near
                                : of_kernel   ? "such a line stands between the braces of a kernel"
                                              : "");
        },
        [&] {
          if (tokens_.is(TokenKind::close_brace)) tokens_.take();
        });
  }

  ast::Name new_name(std::string_view what) {
    names_.push_back(tokens_.expect_name(what));
    return names_.back();
  }

  void use() {
    tokens_.take();
    const Token& token = tokens_.expect(TokenKind::string, "a file name in quotes");
    const std::string_view quoted = tokens_.text(token);
    ast::Use use{std::string(quoted.substr(1, quoted.size() - 2)), tokens_.span(token)};
    if (use.path.empty()) tokens_.fail(use.where, "the file name is empty");
    tokens_.expect_line_end();
    file_.uses.push_back(std::move(use));
  }

  void function() {
    ast::Function function;
    tokens_.take();
    function.name = new_name("the function's name");
    tokens_.expect(TokenKind::open_paren);
    function.params.push_back(tokens_.expect_name("a parameter"));
    while (tokens_.take_if(TokenKind::comma)) function.params.push_back(tokens_.expect_name("a parameter"));
    tokens_.expect(TokenKind::close_paren, "',' or ')'");
    tokens_.expect(TokenKind::assign);
    function.body = parse_expression(tokens_);
    tokens_.expect_line_end();
    file_.functions.push_back(std::move(function));
  }

  ast::Const constant() {
    tokens_.take();
    ast::Const constant;
    constant.name = new_name("the constant's name");
    tokens_.expect(TokenKind::assign);
    constant.value = parse_expression(tokens_);
    return constant;
  }

  void kernel() {
    ast::Kernel kernel;
    bool has_body = true;
    guarded(
        [&] {
          tokens_.take();
          kernel.name = tokens_.expect_name("the kernel's name");
          tokens_.expect(TokenKind::open_brace);
        },
        // Without its brace the lines that follow are taken for the body all the same.
        [&] {
          if (tokens_.is(TokenKind::open_brace)) tokens_.take();
          has_body = !tokens_.is(TokenKind::close_brace);
        });
    if (has_body) body(kernel);
    if (!kernel.name.text.empty()) file_.kernels.push_back(std::move(kernel));
  }

  void body(ast::Kernel& kernel) {
    for (;;) {
      tokens_.skip_newlines();
      const TokenKind next = tokens_.kind();
      if (next == TokenKind::close_brace) break;
      if (next == TokenKind::end || next == TokenKind::key_kernel || next == TokenKind::key_fn ||
          next == TokenKind::key_use) {
        // The kernel ends where something begins that cannot stand in one.
        tokens_.begin_statement();
        try {
          tokens_.fail_expected("'}'", fmt::format("kernel '{}' is not closed", kernel.name.text));
        } catch (const SyntaxErrorReported&) {
          return;
        }
      }
      names_.clear();
      const bool is_list = next == TokenKind::key_dim || next == TokenKind::key_dyn;
      guarded(
          [&] {
            ast::Statement statement = this->statement();
            tokens_.expect_line_end();
            kernel.statements.push_back(std::move(statement));
          },
          [&] {
            if (is_list)
              for (ast::Name& name : tokens_.names_in_line()) names_.push_back(std::move(name));
            kernel.statements.push_back(ast::Broken{names_});
          });
    }
    guarded(
        [&] {
          tokens_.take();
          tokens_.expect_line_end();
        },
        [] {});
  }

  ast::Statement statement() {
    switch (tokens_.kind()) {
      case TokenKind::key_dim: return dims(false);
      case TokenKind::key_dyn: return dims(true);
      case TokenKind::key_group: return group();
      case TokenKind::key_param: return param();
      case TokenKind::key_const: return constant();
      case TokenKind::key_in: return input();
      case TokenKind::key_out: return output();
      case TokenKind::name: return let();
      default: tokens_.fail_expected("a statement");
    }
  }

  ast::Statement dims(bool dynamic) {
    tokens_.take();
    ast::Dim dim;
    dim.dynamic = dynamic;
    do {
      ast::Dim::Item item;
      item.name = new_name("a dimension's name");
      if (dynamic && tokens_.is(TokenKind::assign))
        tokens_.fail_expected("',' or the end of the line", "a dyn gets its number at launch; dim is fixed before");
      if (!dynamic && tokens_.take_if(TokenKind::assign)) {
        const Token& token = tokens_.expect(TokenKind::integer, "a whole number");
        item.value = tokens_.integer_value(token);
        item.value_where = tokens_.span(token);
        if (*item.value < 1) tokens_.fail(item.value_where, "a dimension is at least 1");
      }
      dim.items.push_back(std::move(item));
    } while (tokens_.take_if(TokenKind::comma));
    return dim;
  }

  int64_t align(Span& where) {
    const Token& token = tokens_.expect(TokenKind::integer, "a whole number");
    where = tokens_.span(token);
    const int64_t align = tokens_.integer_value(token);
    if (align < 1) tokens_.fail(where, "an alignment is at least 1");
    return align;
  }

  bool take_word(std::string_view word) {
    if (!tokens_.is_word(word)) return false;
    tokens_.take();
    return true;
  }

  ast::Statement group() {
    tokens_.take();
    const ast::Name name = new_name("the grouped dimension's name");
    if (tokens_.take_if(TokenKind::assign)) {
      ast::Aligned aligned;
      aligned.name = name;
      aligned.base = tokens_.expect_name("a grouped dimension");
      if (!take_word("align")) tokens_.fail_expected("'align'");
      aligned.align = align(aligned.align_where);
      return aligned;
    }
    if (!take_word("by")) tokens_.fail_expected("'by' or '='");
    ast::Group group;
    group.name = name;
    group.by = tokens_.expect_name("the dimension that counts the groups");
    const auto word = [&]() -> ast::Name { return tokens_.expect_name("a word"); };
    if (tokens_.is_word("ends") || tokens_.is_word("counts")) group.sizes = word();
    if (tokens_.is_word("i32") || tokens_.is_word("i64")) group.storage = word();
    if (take_word("align")) {
      group.align = align(group.align_where);
    } else if (take_word("slot")) {
      group.slot = parse_size(tokens_);
    } else if (tokens_.is(TokenKind::name)) {
      tokens_.fail_expected("the end of the line",
                            "the order is: group M by E [ends|counts] [i32|i64] [align INT | slot SIZE]");
    }
    return group;
  }

  ast::Statement param() {
    tokens_.take();
    ast::Param param;
    param.name = new_name("the parameter's name");
    if (tokens_.take_if(TokenKind::assign)) param.value = parse_expression(tokens_);
    return param;
  }

  ast::Statement input() {
    tokens_.take();
    ast::In in;
    in.name = new_name("the input's name");
    tokens_.expect(TokenKind::colon);
    in.tensor = parse_tensor(tokens_);
    if (tokens_.take_if(TokenKind::assign)) {
      if (!tokens_.is(TokenKind::integer) && !tokens_.is(TokenKind::number))
        tokens_.fail_expected("a number", "the default of an input is a plain number");
      const Token& token = tokens_.take();
      in.default_value = tokens_.number_value(token);
      in.default_where = tokens_.span(token);
    }
    return in;
  }

  ast::Statement output() {
    tokens_.take();
    ast::Out out;
    out.name = tokens_.expect_name("the output's name");
    tokens_.expect(TokenKind::colon);
    out.tensor = parse_tensor(tokens_);
    if (!tokens_.is(TokenKind::assign) && !tokens_.is(TokenKind::accumulate))
      tokens_.fail_expected("'=' or '+='", "an output says what it stores: out y : bf16[M, N] = v");
    const Token& assign = tokens_.take();
    out.accumulate = assign.kind == TokenKind::accumulate;
    out.assign_where = tokens_.span(assign);
    out.value = parse_expression(tokens_);
    return out;
  }

  ast::Statement let() {
    ast::Let let;
    let.names.push_back(new_name("a name"));
    if (tokens_.is(TokenKind::name)) two_words();
    if (tokens_.is(TokenKind::colon)) tokens_.fail_expected("'='", "a tensor is declared with in or out");
    while (tokens_.take_if(TokenKind::comma)) let.names.push_back(new_name("a name"));
    if (tokens_.is(TokenKind::accumulate)) tokens_.fail_expected("'='", "only an out adds to what is there");
    tokens_.expect(TokenKind::assign, let.names.size() > 1 ? "',' or '='" : "'='");
    let.value = parse_expression(tokens_);
    return let;
  }

  // `input x : f32`: the first is no name of a value, the second (of dims all that follow) was meant to be one.
  [[noreturn]] void two_words() {
    const std::string word = names_.back().text, keyword = keyword_meant_by(word);
    names_ = tokens_.names_in_line();
    if (keyword != "dim" && keyword != "dyn") names_.resize(1);
    tokens_.fail_expected("'='", hint_for_keyword(word));
  }

  TokenStream tokens_;
  ast::File file_;
  std::vector<ast::Name> names_;  // that the statement has defined so far
  bool in_stray_lines_ = false;
};

}  // namespace

ast::File parse(std::shared_ptr<const SourceFile> file, Diagnostics& diagnostics) {
  return Parser(std::move(file), diagnostics).run();
}

}  // namespace epifuse
