// Integer expressions: folding, the text and its parser, exact evaluation.
#include "base/integer_expression.h"

#include <limits>
#include <map>
#include <random>

#include "tests/support/catch.h"

using epifuse::IntExpr;
using epifuse::parse_int_expr;

namespace {

const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K");

epifuse::Result<int64_t> value(const IntExpr& e, std::map<std::string, int64_t> symbols) {
  return e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto it = symbols.find(std::string(name));
    if (it == symbols.end()) return std::nullopt;
    return it->second;
  });
}

std::string reparsed(const std::string& text) {
  const auto e = parse_int_expr(text);
  return e ? e->text() : "error: " + e.error().message;
}

}  // namespace

TEST_CASE("constants fold, and spellings of one expression have one text") {
  CHECK(IntExpr(3).text() == "3");
  CHECK((IntExpr(3) + 4 * IntExpr(5)).constant() == 23);
  CHECK((m * 1 + 0).text() == "M");
  CHECK((2 * m).text() == "M * 2");
  CHECK(2 * m == m * 2);
  CHECK((m + 4 - 4) == m);
  CHECK((m - 4 + 7).text() == "M + 3");
  CHECK((m - 4).text() == "M - 4");
  CHECK((m * 2 * 8).text() == "M * 16");
  CHECK(exact_div(m * 12, 4).text() == "M * 3");
  CHECK(exact_div(m * 12, 5).text() == "exact_div(M * 12, 5)");
  CHECK(exact_div(m, 1) == m);
  CHECK(ceil_div(m, 1) == m);
  CHECK(round_up(m, 1) == m);
  CHECK(min(m, m) == m);
  CHECK(min(min(m, 9), 5).text() == "min(M, 5)");
  CHECK((m * 0).constant() == 0);
  CHECK((ceil_div(m, 128) * 16 + 4).text() == "ceil_div(M, 128) * 16 + 4");
}

TEST_CASE("a formula is what people write") {
  const IntExpr m = IntExpr::symbol("M"), e = IntExpr::symbol("E"), n = IntExpr::symbol("N");
  CHECK(exact_div(e * n, 32).formula() == "E * N / 32");
  CHECK((exact_div(m, n) * e).formula() == "M / N * E");
  CHECK((e * exact_div(m, n)).formula() == "E * (M / N)");
  CHECK(exact_div(m, exact_div(n, e)).formula() == "M / (N / E)");
  CHECK((ceil_div(m + e, 128) * 16 + 4).formula() == "ceil((M + E) / 128) * 16 + 4");
  CHECK((m * ceil_div(n, 128)).formula() == "M * ceil(N / 128)");
  CHECK(round_up(m - 127, 128).formula() == "ceil((M - 127) / 128) * 128");
  CHECK((e * round_up(m, n)).formula() == "E * (ceil(M / N) * N)");
  CHECK(min(m, max(e, n * 2)).formula() == "min(M, max(E, N * 2))");
  CHECK((m - (e - n)).formula() == "M - (E - N)");
}

TEST_CASE("the text keeps the structure that evaluation depends on") {
  CHECK((m - (k - m)).text() == "M - (K - M)");
  CHECK((m - k - m).text() == "M - K - M");
  CHECK((m * (k + 1)).text() == "M * (K + 1)");
  CHECK(((m + 1) * k).text() == "(M + 1) * K");
  CHECK((m * (k * m)).text() == "M * (K * M)");
  CHECK((5 - m).text() == "5 - M");
  CHECK((m * -4).text() == "M * -4");
}

TEST_CASE("every printed text parses back to itself") {
  std::mt19937 random(7);
  const int64_t constants[] = {
      0, 1, -1, 2, 3, 8, 128, -128, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int round = 0; round < 3000; ++round) {
    std::vector<IntExpr> pool = {m, k, IntExpr::symbol("x.stride0"), IntExpr(constants[random() % 10])};
    for (int i = 0; i < 8; ++i) {
      const IntExpr a = pool[random() % pool.size()];
      const IntExpr b = random() % 3 ? pool[random() % pool.size()] : IntExpr(constants[random() % 10]);
      switch (random() % 8) {
        case 0: pool.push_back(a + b); break;
        case 1: pool.push_back(a - b); break;
        case 2: pool.push_back(a * b); break;
        case 3: pool.push_back(exact_div(a, b)); break;
        case 4: pool.push_back(ceil_div(a, b)); break;
        case 5: pool.push_back(round_up(a, b)); break;
        case 6: pool.push_back(min(a, b)); break;
        default: pool.push_back(max(a, b));
      }
    }
    const IntExpr& e = pool.back();
    if (e.text().size() > 4096) continue;
    const auto back = parse_int_expr(e.text());
    REQUIRE(back);
    REQUIRE(back->text() == e.text());
    const std::map<std::string, int64_t> symbols = {{"M", 1000}, {"K", 7}, {"x.stride0", 24}};
    const auto before = value(e, symbols), after = value(*back, symbols);
    REQUIRE(static_cast<bool>(before) == static_cast<bool>(after));
    if (before) REQUIRE(*before == *after);
  }
}

TEST_CASE("evaluation is exact or an error") {
  CHECK(*value(ceil_div(m, 128), {{"M", 129}}) == 2);
  CHECK(*value(ceil_div(m, 128), {{"M", 0}}) == 0);
  CHECK(*value(ceil_div(m, 128), {{"M", -129}}) == -1);
  CHECK(*value(round_up(m, 128), {{"M", 129}}) == 256);
  CHECK(*value(exact_div(m, 3), {{"M", 12}}) == 4);
  CHECK(*value(max(m, k) - min(m, k), {{"M", 3}, {"K", 9}}) == 6);

  const auto rest = value(exact_div(m, 3), {{"M", 13}});
  REQUIRE_FALSE(rest);
  CHECK(rest.error().message == "in 'M / 3', 13 is not a multiple of 3");
  const auto unknown = value(m + k, {{"M", 1}});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message == "the size 'K' is not known");
  CHECK_FALSE(value(ceil_div(m, k), {{"M", 1}, {"K", 0}}));
  const int64_t big = int64_t{1} << 62;
  CHECK_FALSE(value(m * k, {{"M", big}, {"K", 4}}));
  CHECK_FALSE(value(m + k, {{"M", big}, {"K", big}}));
  CHECK_FALSE(value(m - k, {{"M", -big - 1}, {"K", big}}));
  CHECK_FALSE(value(round_up(m, big), {{"M", big + 1}}));
  // Folding must not turn an error into a number.
  CHECK_FALSE(value(IntExpr(big) * 4, {}));
  CHECK_FALSE(value(ceil_div(IntExpr(5), 0), {}));
}

TEST_CASE("the parser says what it expected, and bounds what it accepts") {
  CHECK(reparsed("( M+2 )*K") == "(M + 2) * K");
  CHECK(reparsed("y.scale.stride0 * 2") == "y.scale.stride0 * 2");
  CHECK(reparsed("ceil_div + 1") == "ceil_div + 1");  // a dimension may bear a function's name
  CHECK(reparsed("M +") == "error: integer expression 'M +': expected a number or a name at column 4");
  CHECK(reparsed("M K") == "error: integer expression 'M K': expected an operator at column 3");
  CHECK(reparsed("min(M)") == "error: integer expression 'min(M)': expected ',' at column 6");
  CHECK(reparsed("foo(M, 2)") == "error: there is no integer function 'foo'");
  CHECK_FALSE(parse_int_expr(""));
  CHECK_FALSE(parse_int_expr("9223372036854775808"));
  CHECK_FALSE(parse_int_expr("-"));
  CHECK_FALSE(parse_int_expr("M / 2"));
  CHECK_FALSE(parse_int_expr(std::string(2000, '(') + "M" + std::string(2000, ')')));
  std::string chain = "M";
  for (int i = 0; i < 5000; ++i) chain += "+M";
  CHECK_FALSE(parse_int_expr(chain));
}

TEST_CASE("numbers take the places of the symbols that have one") {
  const IntExpr m = IntExpr::symbol("M"), e = IntExpr::symbol("E");
  const auto known = [](std::string_view name) { return name == "E" ? std::optional<int64_t>(8) : std::nullopt; };
  CHECK((ceil_div(m, e * 16) * 4 + e * 128).substitute(known).text() == "ceil_div(M, 128) * 4 + 1024");
  CHECK((round_up(e * 3, 128) + min(e, 2)).substitute(known).constant() == 130);
  CHECK(IntExpr(7).substitute(known).constant() == 7);
  // What cannot be computed stays as it was written, and fails where it is evaluated.
  CHECK_FALSE(exact_div(e, 3).substitute(known).constant());
}
