// The formatter: what its style is, and that nothing but blanks changes, whatever the blanks were before.
#include "compiler/parser/format.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "compiler/parser/parser.h"
#include "tests/support/catch.h"

using namespace epifuse;

namespace {

namespace fs = std::filesystem;

std::shared_ptr<const SourceFile> source(std::string text) {
  return std::make_shared<const SourceFile>(SourceFile{"spec.epi", std::move(text)});
}

std::string formatted(const std::string& text) {
  Diagnostics diagnostics;
  const std::optional<std::string> result = format_spec(source(text), diagnostics);
  INFO(text);
  INFO(diagnostics.print());
  REQUIRE(result);
  CHECK(diagnostics.all().empty());
  return *result;
}

std::string tree(const std::string& text) {
  Diagnostics diagnostics;
  const std::string printed = ast::print(parse(source(text), diagnostics));
  REQUIRE(diagnostics.all().empty());
  return printed;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> specs_in(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(std::string(EPIFUSE_SOURCE_DIR) + "/" + folder))
    if (entry.path().extension() == ".epi") paths.push_back(entry.path());
  REQUIRE_FALSE(paths.empty());
  return paths;
}

std::vector<std::string> comments(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const size_t at = line.find('#'); at != std::string::npos)
      found.push_back(line.substr(at, line.find_last_not_of(" \t\r") + 1 - at));
  return found;
}

// The same tokens, comments and lines with other blanks: more or none where the language needs none, and empty lines.
std::string respaced(const std::string& text, std::mt19937& random) {
  std::string out;
  int brackets = 0;
  bool in_comment = false, in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto is_word = [](char x) { return std::isalnum(static_cast<unsigned char>(x)) != 0 || x == '_'; };
    if (c == '\n') in_comment = false;
    if (in_comment || in_string || c == '#' || c == '"') {
      in_comment = in_comment || (c == '#' && !in_string);
      if (c == '"' && !in_comment) in_string = !in_string;
      out += c;
      continue;
    }
    if (c == ' ') {
      const bool glued = !out.empty() && is_word(out.back()) && i + 1 < text.size() && is_word(text[i + 1]);
      out += std::string(random() % 3 + (glued ? 1 : 0), random() % 5 == 0 ? '\t' : ' ');
      continue;
    }
    if (c == '(' || c == '[') ++brackets;
    if (c == ')' || c == ']') --brackets;
    out += c;
    if (c == '\n' && random() % 6 == 0) out += random() % 2 == 0 ? "\n" : "  \r\n\n";
    if (brackets > 0 && (c == ',' || c == '(') && random() % 6 == 0) out += random() % 3 == 0 ? " # why\n" : "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("columns, blanks and comments get the style of the house") {
  CHECK(formatted(R"(
# A spec.
language   1
use   "activations.epi"


const   c=1/3
fn f( a,b ) =a+b*-c   # a function
kernel k { dim E=8,K , I = 4 # sizes
  dyn S

  group M by E counts i64 align 16
  group Q by E slot 2 * S
  group P=M align 128
  param limit=7.0
  param a = -1.5


  # inputs
  in x:bf16 [ M,K ]
  in prob  : f32[M]=1
  in b : mxfp8(elem=e5m2 ,layout= rows)[M, 2 * K / 32]
  in w : bf16[E][2*I,K]   # weights
  gate,up=split( gemm(x,w) )
  r = hadamard(gate , 2 * I,0xD7E8) - (- up)
  out y:bf16[M,I]=gate*up
  out s : f32[E]+=sum(gate<up)
  out q : mxfp8(along = P)[P, I] = x[i] + P . ends
      # the end

}
)") == R"(# A spec.
language 1
use "activations.epi"

const c = 1 / 3
fn f(a, b) = a + b * -c               # a function
kernel k {
  dim   E = 8, K, I = 4               # sizes
  dyn   S

  group M by E counts i64 align 16
  group Q by E slot 2*S
  group P = M align 128
  param limit = 7.0
  param a     = -1.5

  # inputs
  in  x     : bf16[M, K]
  in  prob  : f32[M] = 1
  in  b     : mxfp8(elem = e5m2, layout = rows)[M, 2*K/32]
  in  w     : bf16[E][2*I, K]         # weights
  gate, up  = split(gemm(x, w))
  r         = hadamard(gate, 2*I, 0xD7E8) - (-up)
  out y     : bf16[M, I] = gate * up
  out s     : f32[E]    += sum(gate < up)
  out q     : mxfp8(along = P)[P, I] = x[i] + P.ends
  # the end
}
)");
}

TEST_CASE("long names move the column of all") {
  CHECK(formatted("kernel k {\n  in x : f32[S, N]\n  long_name = x\n  first, second = split(x)\n}\n") ==
        R"(kernel k {
  in  x         : f32[S, N]
  long_name     = x
  first, second = split(x)
}
)");
}

TEST_CASE("line breaks inside brackets stay, below the bracket or indented behind it") {
  CHECK(formatted(R"(fn f(a,
   b) = max(a,  # the first
 # between
 min(b,
 a)
  , (
  b
 ))
)") == R"(fn f(a,
     b) = max(a,                      # the first
              # between
              min(b,
                  a)
              , (
                  b
              ))
)");
}

TEST_CASE("comments of a run share a column, and long ones do not move to it") {
  const std::string far(100, 'x');
  CHECK(formatted("const a = 1 # one\nconst bb = 2 #two\n\nconst c = 3 # " + far + "\nconst dd = 4 # d\n") ==
        "const a = 1                           # one\nconst bb = 2                          #two\n\n"
        "const c = 3  # " +
            far + "\nconst dd = 4 # d\n");
}

TEST_CASE("an empty text stays empty, and line ends become one") {
  CHECK(formatted("") == "");
  CHECK(formatted("\n\n  \n") == "");
  CHECK(formatted("# a\r\n\r\n\r\nconst b = 1\t \r\n") == "# a\n\nconst b = 1\n");
  CHECK(formatted("const b = 1") == "const b = 1\n");
}

TEST_CASE("a text with mistakes is not formatted") {
  Diagnostics diagnostics;
  CHECK_FALSE(format_spec(source("const a = \nkernel k {\n  in x = 1\n}\n"), diagnostics));
  CHECK(diagnostics.all().size() == 2);
  CHECK_FALSE(format_spec(source("const a = ?\n"), diagnostics));
  CHECK(format_spec(source("const a = 1\n"), diagnostics));  // mistakes of other files do not count
}

TEST_CASE("the specs and the library are formatted") {
  for (const char* folder : {"specs", "specs/lib", "specs/cudnn", "specs/recipes"})
    for (const fs::path& path : specs_in(folder)) {
      INFO(path << " is not formatted: epifuse fmt writes it anew");
      const std::string text = read(path);
      CHECK(formatted(text) == text);
    }
}

TEST_CASE("whatever the blanks were, the tree and the comments stay, and formatting again changes nothing") {
  std::mt19937 random(20251129);
  std::vector<fs::path> paths = specs_in("specs");
  for (const char* folder : {"specs/lib", "specs/cudnn", "specs/recipes"})
    for (const fs::path& path : specs_in(folder)) paths.push_back(path);
  paths.push_back(std::string(EPIFUSE_SOURCE_DIR) + "/tests/semantics/language_examples.epi");
  for (const fs::path& path : paths) {
    const std::string original = read(path);
    for (int round = 0; round < 6; ++round) {
      const std::string text = round == 0 ? original : respaced(original, random);
      const std::string once = formatted(text);
      INFO(path << "\n" << text);
      REQUIRE(tree(once) == tree(original));
      REQUIRE(comments(once) == comments(text));
      REQUIRE(formatted(once) == once);
    }
  }
}
