// Damaged specs: whatever the bytes are, the front end comes back with a graph or with a reason.
#include <random>

#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Parses and checks; every place that is reported lies in a file.
void survive(const std::string& text) {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics);
  check(program, {}, diagnostics);
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    REQUIRE(diagnostic.where.file);
    REQUIRE(diagnostic.where.offset <= diagnostic.where.file->text.size());
    REQUIRE_FALSE(diagnostic.message.empty());
  }
  REQUIRE(diagnostics.print().size() >= diagnostics.all().size());
  if (diagnostics.has_errors()) return;
  for (const std::string& name : kernel_names(program)) REQUIRE(resolve(program, name, {}, diagnostics));
}

// The examples as separate kernels, so that one run is short.
std::vector<std::string> kernels() {
  const std::string all = read_file("tests/semantics/language_examples.epi");
  std::vector<std::string> texts;
  for (size_t at = all.find("\nkernel "); at != std::string::npos;) {
    const size_t next = all.find("\nkernel ", at + 1);
    texts.push_back("use \"activations.epi\"" + all.substr(at, next == std::string::npos ? next : next - at));
    at = next;
  }
  return texts;
}

}  // namespace

TEST_CASE("a spec that ends early") {
  const std::vector<std::string> texts = kernels();
  REQUIRE(texts.size() == 46);
  for (size_t i = 0; i < texts.size(); i += 5)
    for (size_t length = 0; length <= texts[i].size(); length += 3) survive(texts[i].substr(0, length));
}

TEST_CASE("a spec with one byte changed, left out or put in") {
  std::mt19937 random(20240607);
  const std::string alphabet = "()[]{},:.=+-*/<>!\"#\n\t 0129aKMx_\x01\xff$";
  const std::vector<std::string> texts = kernels();
  for (int round = 0; round < 3000; ++round) {
    std::string text = texts[random() % texts.size()];
    const size_t at = random() % text.size();
    const char byte = alphabet[random() % alphabet.size()];
    switch (random() % 3) {
      case 0: text[at] = byte; break;
      case 1: text.erase(at, 1); break;
      default: text.insert(at, 1, byte); break;
    }
    survive(text);
  }
}

TEST_CASE("a spec with its lines, or its words, in another order") {
  std::mt19937 random(7);
  const std::vector<std::string> texts = kernels();
  for (int round = 0; round < 1000; ++round) {
    const std::string& text = texts[random() % texts.size()];
    const char separator = round % 2 == 0 ? '\n' : ' ';
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    for (int swaps = 0; swaps < 3; ++swaps) std::swap(parts[random() % parts.size()], parts[random() % parts.size()]);
    survive(fmt::format("{}", fmt::join(parts, std::string(1, separator))));
  }
}

TEST_CASE("long and deep texts") {
  const auto many = [](std::string_view part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const auto kernel = [](const std::string& value) {
    return "kernel k {\n in x : f32\n out y : f32 = " + value + "\n}\n";
  };
  survive(kernel("x" + many(" + x", 50000)));
  survive(kernel(many("(", 100000) + "x"));
  survive(kernel(many("exp(", 100000) + "x"));
  survive(kernel(many("-", 100000) + "x"));
  survive(kernel(many("(", 100000) + "x" + many(")", 100000)));
  survive(many("kernel k {\n", 2000));
  survive(many("}\n", 2000));
  survive(many("]", 100000));
  survive(std::string(100000, '\0'));
  survive(std::string(100000, '"'));
}
