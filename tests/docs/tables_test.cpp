// The tables of the reference and the word lists of the editor grammar are those of the source.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/ir/graph.h"
#include "compiler/parser/lexer.h"
#include "compiler/semantics/builtins.h"
#include "compiler/semantics/operators.h"
#include "compiler/semantics/type_options.h"
#include "tests/docs/page.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

using Cells = std::vector<std::string>;

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

std::string codes(const Cells& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + code(word);
  return text;
}

std::string with_bars_escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

const std::string& reference() {
  static const std::string page = read_file("docs/language.md");
  return page;
}

// How an operation on elements is written: by its operators, or as a call.
std::string spelling(ir::Op op) {
  struct Row {
    ast::Operator op;
    const char* text;
  };
  constexpr Row operators[] = {{ast::Operator::add, "+"},         {ast::Operator::sub, "-"},
                               {ast::Operator::mul, "*"},         {ast::Operator::div, "/"},
                               {ast::Operator::less, "<"},        {ast::Operator::greater, ">"},
                               {ast::Operator::less_equal, "<="}, {ast::Operator::greater_equal, ">="},
                               {ast::Operator::equal, "=="},      {ast::Operator::not_equal, "!="}};
  Cells written;
  for (const Row& row : operators) {
    const semantics::OperatorMeaning meaning = semantics::operator_meaning(row.op);
    if (meaning.op == op)
      written.push_back(meaning.swapped ? fmt::format("b {} a", row.text) : fmt::format("a {} b", row.text));
  }
  if (op == ir::Op::neg) written.push_back("-a");
  const ir::OpInfo& info = ir::op_info(op);
  if (semantics::map_function(info.name)) {
    const std::string arguments = std::string("a, b, c").substr(0, static_cast<size_t>(3 * info.arity - 2));
    written.push_back(fmt::format("{}({})", info.name, arguments));
  }
  return codes(written);
}

// "\b(?:a|b|c)\b": how the grammar lists words.
std::string alternation(const Cells& words) { return fmt::format("\\b(?:{})\\b", fmt::join(words, "|")); }

Cells formats(bool plain, bool scaled) {
  Cells names;
  for (const ir::FormatInfo& info : ir::all_formats())
    if (info.scaled ? scaled : plain) names.emplace_back(info.name);
  return names;
}

}  // namespace

TEST_CASE("the table of operations is ops.def") {
  std::vector<Cells> expected;
  for (int i = 0; i < static_cast<int>(ir::Op::grad); ++i) {
    const auto op = static_cast<ir::Op>(i);
    if (ir::op_info(op).kind != ir::OpKind::map || op == ir::Op::cast) continue;  // cast is among the functions
    expected.push_back({spelling(op), with_bars_escaped(std::string(ir::op_info(op).meaning))});
  }
  CHECK(table_rows(marked(reference(), "table: operations")) == expected);
}

TEST_CASE("the table of functions has each that the resolver knows, with its signature") {
  std::set<std::string> written, expected;
  for (const Cells& row : table_rows(marked(reference(), "table: functions"))) written.insert(row[0]);
  for (const std::string& name : semantics::builtin_functions()) {
    const semantics::SpecialFunction* function = semantics::special_function(name);
    if (function == nullptr) continue;
    std::string signature = "`" + std::string(function->signature) + "`";
    if (const size_t at = signature.find(" or "); at != std::string::npos) signature.replace(at, 4, "` or `");
    expected.insert(signature);
  }
  CHECK(written == expected);
}

TEST_CASE("the library's functions are listed") {
  Cells names;
  for (const std::string& line : lines_of(read_file("specs/lib/activations.epi")))
    if (line.starts_with("fn ")) names.push_back(line.substr(3, line.find('(') - 3));
  REQUIRE(names.size() > 10);
  CHECK(reference().find(fmt::format("`{}` are functions of the library", fmt::join(names, " "))) != std::string::npos);
}

TEST_CASE("the tables of types are those of the source") {
  CHECK(marked(reference(), "list: plain types") == codes(formats(true, false)));
  std::vector<Cells> expected;
  for (const ir::FormatInfo& info : ir::all_formats()) {
    if (!info.scaled) continue;
    Cells elements = semantics::option_words(info.format, "elem");
    if (elements.empty()) elements = {std::string(storage_name(info.element))};
    expected.push_back({code(info.name), fmt::format("{} × {}", info.block_rows, info.block_columns), codes(elements),
                        code(storage_name(info.scale)), codes(semantics::option_words(info.format, "rule")),
                        codes(semantics::option_words(info.format, "layout"))});
  }
  CHECK(table_rows(marked(reference(), "table: scaled types")) == expected);
}

TEST_CASE("the table of options is the resolver's") {
  std::vector<Cells> written, expected;
  for (const Cells& row : table_rows(marked(reference(), "table: options"))) {
    written.push_back({row[0], row[1]});
    const std::string option = row[0].substr(1, row[0].size() - 2);
    if (option != "elem" && option != "nonfinite") continue;
    INFO(row[2]);
    CHECK(row[2].find(codes(semantics::option_words(ir::Format::mxfp8, option))) != std::string::npos);
  }
  for (const semantics::TypeOption& option : semantics::type_options())
    expected.push_back({code(option.name), option.of_stores ? "`out`" : "`in`, `out`"});
  CHECK(written == expected);
}

TEST_CASE("the words of each option are those that a type of it takes") {
  for (const ir::FormatInfo& info : ir::all_formats())
    for (const std::string& option : semantics::option_names())
      for (const std::string word : {"e4m3", "e5m2", "up", "floor", "even", "ceil", "te_f32", "deepgemm", "torchao",
                                     "vllm", "rows", "columns_tma", "blocked_128x4", "propagate", "te"}) {
        if (option == "along" || option == "amax" || option == "seed") continue;
        const Cells words = semantics::option_words(info.format, option);
        const std::string type = fmt::format("{}({} = {})", info.name, option, word);
        INFO(type);
        Diagnostics diagnostics = check_text(
            fmt::format("kernel k {{\n  dim A = 128, B = 128\n  in x : f32[A, B]\n  out y : {}[A, B] = x\n}}\n", type));
        const bool taken = std::find(words.begin(), words.end(), word) != words.end();
        CHECK(diagnostics.all().empty() == taken);
      }
}

TEST_CASE("each rule, layout and policy has its meaning in the page of formats") {
  const std::string page = read_file("docs/formats.md");
  for (const ir::FormatInfo& info : ir::all_formats()) {
    if (info.scaled) CHECK(page.find(code(info.name)) != std::string::npos);
    for (const char* option : {"rule", "nonfinite"})
      for (const std::string& word : semantics::option_words(info.format, option)) {
        INFO(word);
        CHECK((page.find("| " + code(word) + " |") != std::string::npos ||
               page.find("`rule = " + word + "`") != std::string::npos));
      }
    for (const std::string& word : semantics::option_words(info.format, "layout")) {
      INFO(word);
      CHECK(page.find("**" + code(word) + "**:") != std::string::npos);
    }
  }
}

TEST_CASE("the page of formats has the numbers of the elements") {
  const std::string page = read_file("docs/formats.md");
  for (const auto& [element, largest] : std::vector<std::pair<std::string, std::string>>{
           {"e4m3", "448 (0x7E)"}, {"e5m2", "57344 (0x7B)"}, {"e2m1", "6 (0x7)"}, {"e8m0", "2^127 (0xFE)"}})
    CHECK(page.find(fmt::format("| `{}` | {} |", element, largest)) != std::string::npos);
}

TEST_CASE("the grammar of editors lists the words of the language") {
  const auto grammar = nlohmann::json::parse(read_file("tools/editor/epifuse.tmLanguage.json"));
  const auto pattern = [&](const char* rule, const char* key = "match") {
    return grammar.at("repository").at(rule).at(key).get<std::string>();
  };
  Cells keywords, tokens;
#define EPIFUSE_TOKEN(kind, text, description) \
  if (is_keyword(TokenKind::kind)) keywords.emplace_back(text);
#include "compiler/parser/tokens.def"
#undef EPIFUSE_TOKEN
  CHECK(pattern("keyword") == alternation(keywords));
  CHECK(pattern("type") == alternation(formats(true, true)));
  CHECK(pattern("function") == alternation(semantics::builtin_functions()) + "(?=\\s*\\()");
  CHECK(pattern("option") == alternation(semantics::option_names()) + "(?=\\s*=)");
  CHECK(pattern("options", "begin") == fmt::format("\\b({})\\s*(\\()", fmt::join(formats(false, true), "|")));
  Cells words;
  for (const char* option : {"elem", "rule", "layout", "nonfinite"})
    for (const ir::FormatInfo& info : ir::all_formats())
      for (const std::string& word : semantics::option_words(info.format, option))
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  Cells listed;
  std::string rest = pattern("word").substr(5);
  rest.resize(rest.size() - 3);
  std::istringstream stream(rest);
  for (std::string word; std::getline(stream, word, '|');) listed.push_back(word);
  std::sort(words.begin(), words.end());
  std::sort(listed.begin(), listed.end());
  CHECK(listed == words);
}
