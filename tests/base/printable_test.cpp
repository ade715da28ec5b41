// Control characters, of one byte and of two, and what stays.
#include "base/printable.h"

#include "tests/support/catch.h"

using namespace epifuse;
using namespace std::string_literals;

TEST_CASE("control characters are spelled out, text is not") {
  CHECK(printable("\x1b[31mred\x1b]0;title\x07") == "\\x1b[31mred\\x1b]0;title\\x07");
  CHECK(printable("a\rb\bc\x7f"s + '\0' + "d") == "a\\x0db\\x08c\\x7f\\x00d");
  CHECK(printable("\xc2\x9b"
                  "31m and \xc2\x85") == "\\x9b31m and \\x85");
  const std::string kept = "line\n\tK \xe2\x89\xa4 7168, \xc3\xa9, \xc2\xa0, \xff \\x1b";
  CHECK(printable(kept) == kept);
  CHECK(printable("\xc2") == "\xc2");
}
