// The tests that the tables of docs/cache.md and docs/bundles.md name are there, under that name.
#include <filesystem>
#include <regex>

#include "tests/docs/page.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The names of the cases of tests/FOLDER/NAME_test, .cpp or .py.
std::set<std::string> cases_of(const std::string& path) {
  std::set<std::string> names;
  const std::string root = std::string(EPIFUSE_SOURCE_DIR) + "/";
  const bool python = std::filesystem::exists(root + path + ".py");
  CAPTURE(path);
  REQUIRE((python || std::filesystem::exists(root + path + ".cpp")));
  std::string text = read_file(path + (python ? ".py" : ".cpp"));
  if (!python) text = std::regex_replace(text, std::regex(R"("\s*\n\s*")"), "");  // a name in several literals
  const std::regex begin(python ? R"(def test_(\w+)\()" : R"re(TEST_CASE\(\s*"([^"]+)")re");
  for (std::sregex_iterator match(text.begin(), text.end(), begin), end; match != end; ++match) {
    std::string name = (*match)[1];
    if (python) std::replace(name.begin(), name.end(), '_', ' ');
    names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("every test that a table of promises names is there") {
  int named = 0;
  for (const std::string page : {"docs/cache.md", "docs/bundles.md"}) {
    std::string path;
    std::set<std::string> cases;
    for (const std::string& line : lines_of(read_file(page))) {
      if (!line.starts_with("|") || line.find("_test`") == std::string::npos) continue;
      // A test program in back quotes, and behind it names of its cases in double ones.
      const std::regex word(R"re(`(tests/\w+/\w+_test)`|`(\w+_test)`|"([^"]+)")re");
      for (std::sregex_iterator match(line.begin(), line.end(), word), end; match != end; ++match) {
        CAPTURE(page, match->str());
        CHECK_FALSE((*match)[2].matched);  // with its folder: some names are there twice
        if ((*match)[1].matched) cases = cases_of(path = (*match)[1]);
        if (!(*match)[3].matched) continue;
        CAPTURE(path);
        CHECK(cases.contains((*match)[3]));
        ++named;
      }
    }
  }
  CHECK(named > 60);
}
