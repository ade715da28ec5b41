// Every example of the reference is a good spec, formatted by hand as its page likes it, and becomes a kernel unless it
// is marked as refused. Every construct of the grammar is in one of them.
#include <set>

#include "compiler/compiler.h"
#include "compiler/parser/lexer.h"
#include "tests/docs/page.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Example {
  std::string place;
  bool refused = false;
  std::string text;
};

std::vector<Example> examples() {
  std::vector<Example> found;
  for (const std::string page : {"docs/language.md", "docs/formats.md"})
    for (const FencedBlock& block : fenced_blocks(read_file(page))) {
      const std::string place = fmt::format("{}:{}", page, block.line);
      INFO(place << " " << block.label);
      CHECK(std::set<std::string>{"epi", "epi refused", "ebnf", "text", "python"}.contains(block.label));
      if (block.label.starts_with("epi")) found.push_back({place, block.label == "epi refused", block.text});
    }
  return found;
}

Program program_of(const Example& example, Diagnostics& diagnostics) {
  return load_text(example.text, diagnostics, {{"activations.epi", read_file("specs/lib/activations.epi")}});
}

}  // namespace

TEST_CASE("the examples of the pages are good specs with all their sizes") {
  int kernels = 0;
  for (const Example& example : examples()) {
    Diagnostics diagnostics;
    const Program program = program_of(example, diagnostics);
    for (const std::string& name : kernel_names(program)) {
      ResolveOptions options;
      options.require_bound = true;
      INFO(example.place << " " << name << "\n" << diagnostics.print());
      CHECK(resolve(program, name, options, diagnostics));
      ++kernels;
    }
    INFO(example.place << "\n" << diagnostics.print());
    CHECK(diagnostics.all().empty());
  }
  CHECK(kernels >= 25);
}

TEST_CASE("an example becomes a kernel unless the page says that it is refused") {
  for (const Example& example : examples()) {
    Diagnostics diagnostics;
    const Program program = program_of(example, diagnostics);
    for (const std::string& name : kernel_names(program)) {
      Diagnostics own;
      const bool planned = plan_kernel(program, name, {}, own).has_value();
      INFO(example.place << " " << name << "\n" << own.print());
      CHECK(planned == !example.refused);
      if (!planned) CHECK(own.has_errors());
    }
  }
}

TEST_CASE("each keyword, function, type and option stands in an example") {
  std::set<std::string> words;
  for (const Example& example : examples()) {
    Diagnostics diagnostics;
    const auto file = std::make_shared<const SourceFile>(SourceFile{"example", example.text});
    for (const Token& token : lex(file, diagnostics)) words.insert(example.text.substr(token.offset, token.length));
  }
  std::set<std::string> wanted = {"by", "ends", "counts", "i32", "align", "slot", "language", ".", "[", "+=", "<="};
  for (const char* text : {
#define EPIFUSE_TOKEN(kind, text, description) text,
#include "compiler/parser/tokens.def"
#undef EPIFUSE_TOKEN
       })
    if (std::string(text).size() > 1) wanted.insert(text);
  for (const std::string absent : {"<", ">", "<="}) wanted.erase(absent);  // one comparison stands for all
  for (const std::string& word : wanted) {
    INFO(word);
    CHECK(words.contains(word));
  }
}
