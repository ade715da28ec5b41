// Tokens to a tree, and what is left of it after a mistake.
#include "compiler/parser/parser.h"

#include <fmt/format.h>

#include "tests/support/catch.h"

using namespace epifuse;

namespace {

struct Parsed {
  ast::File tree;
  Diagnostics diagnostics;
};

Parsed parse_text(const std::string& text) {
  Parsed parsed;
  parsed.tree = parse(std::make_shared<const SourceFile>(SourceFile{"spec.epi", text}), parsed.diagnostics);
  return parsed;
}

std::string tree_of(const std::string& text) {
  const Parsed parsed = parse_text(text);
  INFO(parsed.diagnostics.print());
  CHECK(parsed.diagnostics.all().empty());
  return ast::print(parsed.tree);
}

std::string expression(const std::string& text) {
  const std::string printed = tree_of("const c = " + text + "\n");
  return printed.substr(10, printed.size() - 11);
}

}  // namespace

TEST_CASE("every form of statement prints as it means") {
  const std::string text = R"(use "activations.epi"
const c = (1 / 3)
fn f(a, b) = (a + (b * c))
kernel k {
  dim E = 8, K, I = 4
  dyn S, L
  group M by E
  group N by E counts i64 align 16
  group Q by E ends i32 slot 2*S
  group P = M align 128
  param p = (-1.5)
  param q
  const d = 0x10
  in a : f32
  in b : mxfp8(elem = e5m2, layout = blocked_128x4)[M, K/32] = 1
  in w : bf16[E][2*I, K]
  x, y = split(a, 8)
  z = f(x, P.ends)
  out o : f32[E] += sum((a[b] < 2))
}
)";
  CHECK(tree_of(text) == text);
}

TEST_CASE("operators bind as in arithmetic, and a chain is one node") {
  CHECK(expression("a - b - c * d / e") == "(a - b - (c * d / e))");
  CHECK(expression("-a * -b") == "((-a) * (-b))");
  CHECK(expression("(a + b) * c >= -1") == "(((a + b) * c) >= (-1))");
  CHECK(expression("f(a, b[i]) + P.ends") == "(f(a, b[i]) + P.ends)");
}

TEST_CASE("lines end anywhere inside brackets, and nowhere else") {
  CHECK(expression("f(\n  a,\n\n  b\n)") == "f(a, b)");
  CHECK(parse_text("const c = a +\n b\n").diagnostics.all().size() == 2);
  CHECK(tree_of("kernel k { dim E\n out y : f32 = 1 }") == "kernel k {\n  dim E\n  out y : f32 = 1\n}\n");
  CHECK(tree_of("language 1\n\nkernel k {\n}\n") == "kernel k {\n}\n");
  CHECK(tree_of("") == "");
}

TEST_CASE("nesting has a limit, chains have none") {
  const auto nested = [](int levels) {
    return "const c = " + std::string(levels, '(') + "1" + std::string(levels, ')') + "\n";
  };
  CHECK(parse_text(nested(max_nesting - 1)).diagnostics.all().empty());
  const Diagnostics deep = parse_text(nested(max_nesting)).diagnostics;
  REQUIRE(deep.all().size() == 1);
  CHECK(deep.all()[0].message == "nested deeper than 100 levels");
  CHECK(deep.all()[0].where.begin().column == 111);
  std::string chain = "const c = 1";
  for (int i = 0; i < 20000; ++i) chain += " + 1";
  CHECK(parse_text(chain + "\n").tree.constants[0].value.args.size() == 20001);
}

TEST_CASE("a mistake costs its line, not the next one") {
  const Parsed parsed = parse_text(
      "kernel k {\n  dim E = x, K\n  in a : [\n  b = gemm(a,\n  c = a\n  gate, up = (\n  out y : f32 = c\n}\n"
      "fn f(x = 1\nfn g(x) = x\n");
  std::vector<int> lines;
  for (const Diagnostic& d : parsed.diagnostics.all()) lines.push_back(d.where.begin().line);
  INFO(parsed.diagnostics.print());
  CHECK(lines == std::vector<int>{2, 3, 4, 6, 9});
  REQUIRE(parsed.tree.kernels.size() == 1);
  CHECK(ast::print(parsed.tree) ==
        "fn g(x) = x\nkernel k {\n  # could not be read: E, x, K\n  # could not be read: a\n  # could not be read: b\n "
        " c = a\n"
        "  # could not be read: gate, up\n  out y : f32 = c\n}\n");
}

TEST_CASE("a mistake is where the missing thing should be") {
  const Parsed parsed = parse_text("kernel k {\n  h = gemm(a, b\n  out y : f32 = h\n}\n");
  CHECK(parsed.diagnostics.print() == R"(spec.epi:2:16: error: expected ',' or ')', found the end of the line
  2 |   h = gemm(a, b
    |                ^
    hint: the '(' stands in line 2
)");
}

TEST_CASE("lines behind a misplaced brace are one mistake") {
  CHECK(parse_text("kernel k {\n}\n in x : f32\n out y : f32 = x\n}\nkernel l {\n}\n").diagnostics.all().size() == 1);
}
