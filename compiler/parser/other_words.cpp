#include "compiler/parser/other_words.h"

#include <fmt/format.h>
#include <vector>

#include "base/diagnostics.h"

namespace epifuse {
namespace {

struct OtherWord {
  std::string_view word, keyword;
};

// Those that nearest() finds by itself are not listed.
constexpr OtherWord other_words[] = {
    {"input", "in"},  {"inputs", "in"},     {"output", "out"},      {"outputs", "out"},    {"return", "out"},
    {"store", "out"}, {"dimension", "dim"}, {"parameter", "param"}, {"constant", "const"}, {"def", "fn"},
    {"func", "fn"},   {"function", "fn"},   {"import", "use"},      {"include", "use"},    {"from", "use"},
};

constexpr std::string_view keywords[] = {
#define EPIFUSE_TOKEN(kind, text, description) text,
#include "compiler/parser/tokens.def"
#undef EPIFUSE_TOKEN
};

bool is_word(std::string_view text) { return !text.empty() && text.front() >= 'a' && text.front() <= 'z'; }

}  // namespace

std::string keyword_meant_by(std::string_view word) {
  for (const OtherWord& row : other_words)
    if (row.word == word) return std::string(row.keyword);
  std::vector<std::string> names;
  for (const std::string_view text : keywords)
    if (is_word(text)) names.emplace_back(text);
  // Any letter is near any other.
  return word.size() > 1 ? nearest(word, names) : "";
}

std::string hint_for_keyword(std::string_view word) {
  for (const std::string_view needless : {"let", "var", "val", "auto"})
    if (needless == word) return "a value needs no keyword: h = gemm(x, w)";
  const std::string keyword = keyword_meant_by(word);
  return keyword.empty() ? "" : fmt::format("did you mean '{}'?", keyword);
}

std::string_view hint_for_sign(char sign) {
  switch (sign) {
    case '^': return "a power is a product: v * v, or square(v) of activations.epi";
    case '@': return "the product that contracts a name is gemm(a, b)";
    case '?': return "select(c, a, b) is a where c is not 0, else b";
    case ';': return "a statement ends with its line";
    default: return "";
  }
}

}  // namespace epifuse
