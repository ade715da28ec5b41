// Text to tokens.
#include "compiler/parser/lexer.h"

#include "tests/support/catch.h"

using namespace epifuse;

namespace {

std::string tokens_of(const std::string& text, size_t mistakes = 0) {
  const auto file = std::make_shared<const SourceFile>(SourceFile{"spec.epi", text});
  Diagnostics diagnostics;
  const std::vector<Token> tokens = lex(file, diagnostics);
  INFO(diagnostics.print());
  CHECK(diagnostics.all().size() == mistakes);
  return print_tokens(*file, tokens);
}

}  // namespace

TEST_CASE("tokens print with their places") {
  CHECK(tokens_of("kernel k {  # a comment\n\n  out y : f32[M, 2*I] += -1.5e-3 <= 0x1F\n}") == R"(1:1 key_kernel kernel
1:8 name k
1:10 open_brace {
1:24 newline
3:3 key_out out
3:7 name y
3:9 colon :
3:11 name f32
3:14 open_bracket [
3:15 name M
3:16 comma ,
3:18 integer 2
3:19 star *
3:20 name I
3:21 close_bracket ]
3:23 accumulate +=
3:26 minus -
3:27 number 1.5e-3
3:34 less_equal <=
3:37 integer 0x1F
3:41 newline
4:1 close_brace }
4:2 end
)");
}

TEST_CASE("keywords are whole words, and the longer operator wins") {
  CHECK(tokens_of("inner in == = != >= > .") ==
        "1:1 name inner\n1:7 key_in in\n1:10 equal ==\n1:13 assign =\n1:15 not_equal !=\n1:18 greater_equal >=\n"
        "1:21 greater >\n1:23 dot .\n1:24 end\n");
}

TEST_CASE("line ends of any kind, and none at the start") {
  CHECK(tokens_of("\n\r\n# only a comment\r\na\r\n\r\n\tb") == "4:1 name a\n4:3 newline\n6:2 name b\n6:3 end\n");
  CHECK(tokens_of("") == "1:1 end\n");
}

TEST_CASE("numbers end where their digits end") {
  CHECK(tokens_of("1.5 1 . 5 P.ends 7.0") ==
        "1:1 number 1.5\n1:5 integer 1\n1:7 dot .\n1:9 integer 5\n1:11 name P\n"
        "1:12 dot .\n1:13 name ends\n1:18 number 7.0\n1:21 end\n");
}

TEST_CASE("what is no token is one mistake and one token") {
  CHECK(tokens_of("a @ b", 1) == "1:1 name a\n1:3 invalid @\n1:5 name b\n1:6 end\n");
  CHECK(tokens_of("\xCE\xB1\xCE\xB2 b", 1) == "1:1 invalid \xCE\xB1\xCE\xB2\n1:6 name b\n1:7 end\n");
  CHECK(tokens_of("\"open\nb", 1) == "1:1 invalid \"open\n1:6 newline\n2:1 name b\n2:2 end\n");
  CHECK(tokens_of("2I", 1) == "1:1 invalid 2I\n1:3 end\n");
  CHECK(tokens_of("! =", 1) == "1:1 invalid !\n1:3 assign =\n1:4 end\n");
  CHECK(tokens_of("# \xCE\xB1 may stand in comments") == "1:27 end\n");
}
