// The embedded templates, and which of them a source includes.
#include "compiler/toolchain/templates.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file_system.h"
#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::toolchain;

namespace {

std::vector<std::string> paths(const std::vector<Header>& headers) {
  std::vector<std::string> list;
  for (const Header& header : headers) list.emplace_back(header.path);
  return list;
}

using Paths = std::vector<std::string>;

const std::vector<Header> available = {
    {"a.cuh", "#pragma once\n#include \"b/b.cuh\"\n"},
    {"b/b.cuh", "#include \"c.cuh\""},  // no newline at the end
    {"c.cuh", "#include \"a.cuh\"\n"},  // a circle
    {"d.cuh", ""},
};

}  // namespace

TEST_CASE("every template is embedded, byte for byte") {
  const std::filesystem::path root = std::filesystem::path(EPIFUSE_SOURCE_DIR) / "templates";
  std::vector<std::string> on_disk;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".cuh") on_disk.push_back(std::filesystem::relative(entry.path(), root).string());
  }
  std::sort(on_disk.begin(), on_disk.end());
  CHECK(paths(embedded_templates()) == on_disk);
  std::set<std::string_view> digests;
  for (const Header& header : embedded_templates()) {
    CHECK(header.text == *real_file_system().read((root / header.path).string()));
    CHECK(header.sha256.size() == 64);
    CHECK(header.sha256.find_first_not_of("0123456789abcdef") == std::string_view::npos);
    CHECK(digests.insert(header.sha256).second);  // no two templates are equal
  }
}

TEST_CASE("what is included, directly or through others, is found once") {
  CHECK(paths(headers_included_by("#include \"a.cuh\"\n", available)) == Paths{"a.cuh", "b/b.cuh", "c.cuh"});
  CHECK(paths(headers_included_by("  #  include\t\"d.cuh\"  // why\r\nint x;", available)) == Paths{"d.cuh"});
  CHECK(paths(headers_included_by("#include \"d.cuh\"\n#include \"d.cuh\"\n", available)) == Paths{"d.cuh"});
}

TEST_CASE("what only looks like an include is none") {
  for (const char* source :
       {"", "#include", "#include \"", "#include \"d.cuh", "#include <d.cuh>", "// #include \"d.cuh\"",
        "#define include \"d.cuh\"", "#include \"missing.cuh\"", "#includ \"d.cuh\""}) {
    CHECK(headers_included_by(source, available).empty());
  }
}
