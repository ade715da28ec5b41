// What read_json takes and what it refuses, in words.
#include "base/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/catch.h"

namespace epifuse {
namespace {

std::string nested(int levels, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += "1";
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

std::string error_of(std::string_view text) {
  const auto value = read_json(text);
  return value ? "" : value.error().message;
}

TEST_CASE("JSON is read with its keys in order", "[base]") {
  const auto value = read_json(R"({"z": [1, {"a": "}]:\""}], "a": {"z": null}, "": 2})");
  REQUIRE(value);
  CHECK(value->dump() == R"({"z":[1,{"a":"}]:\""}],"a":{"z":null},"":2})");
}

TEST_CASE("JSON may nest to the limit and no deeper", "[base]") {
  CHECK(read_json(nested(most_json_levels, "[", "]")));
  CHECK(read_json(nested(most_json_levels, R"({"a":)", "}")));
  for (const int levels : {most_json_levels + 1, 1'000'000}) {
    CHECK(error_of(nested(levels, "[", "]")) == "JSON that nests deeper than 100 levels, which is not read");
    CHECK(error_of(nested(levels, R"({"a":)", "}")) == "JSON that nests deeper than 100 levels, which is not read");
    CHECK_FALSE(error_of(std::string(static_cast<size_t>(levels), '[')).empty());
  }
  // Brackets in a text are none.
  CHECK(read_json("[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]"));
}

TEST_CASE("a key that is there twice is an error that names it", "[base]") {
  CHECK(error_of(R"([{"a": 1, "b": {"k": 1, "k": 2}}])") == "JSON in which an object has the key 'k' twice");
  CHECK(error_of(R"({"a": 1, "\u0061": 2})") == "JSON in which an object has the key 'a' twice");
  CHECK(read_json(R"([{"a": 1, "b": {"a": 1}}, {"a": 2}])"));
}

TEST_CASE("what is no JSON is told with its place", "[base]") {
  CHECK(error_of("{\n  \"a\": 1,\n  x}") == "no JSON (line 3, column 3)");
  CHECK(error_of("") == "no JSON (character 1)");
  CHECK(error_of("[1,]") == "no JSON (character 4)");
  for (const char* text : {"{", "[1,]", "\"", "\"\\", "1 2", "}", "\xff", "nan", ":"}) CHECK_FALSE(read_json(text));
  CHECK(error_of("1e999") == "no JSON that can be read: a number in it is out of range");
}

TEST_CASE("the character 0 is in no text", "[base]") {
  CHECK(error_of(R"({"spec": "g.epi\u0000x"})") == "JSON with the character 0 in a text, which is not read");
  CHECK(error_of(R"({"a\u0000": 1})") == "JSON with the character 0 in a text, which is not read");
  CHECK(read_json(R"(["\\u0000", "\u00001"])").operator bool() == false);
  CHECK(read_json(R"(["\\u0000"])"));
}

TEST_CASE("a whole number is one of 64 bits with a sign", "[base]") {
  const auto integer = [](std::string_view text) { return json_integer(*read_json(text)); };
  CHECK(integer("9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(integer("-9223372036854775808") == std::numeric_limits<int64_t>::min());
  for (const char* text : {"9223372036854775808", "18446744073709551615", "1.0", "1e3", "\"1\"", "true", "null", "[1]"})
    CHECK_FALSE(integer(text));
}

}  // namespace
}  // namespace epifuse
