// Records: their text, and the words for the places in which two of them differ.
#include "base/artifact_record.h"

#include "tests/support/catch.h"

using namespace epifuse;

namespace {

struct Request {
  std::string arch = "sm_90a", flag = "-a", recipe = R"({"kernel":"k","launches":[{"block":128}]})";
  std::string digest = "11", source = "one\ntwo\nthree\n";

  std::string text() const {
    return ArtifactRecord()
        .add("artifact", "2")
        .add("arch", arch)
        .add("flag", "-x")
        .add("flag", flag)
        .add("recipe", recipe)
        .add("path", "tile/tile.cuh")
        .add("sha256", digest)
        .add("source", source)
        .take();
  }
};

// The only part in which the stored request differs from the usual one.
RecordDifference only_difference(const Request& stored) {
  const std::vector<RecordDifference> all = record_differences(stored.text(), Request().text());
  REQUIRE(all.size() == 1);
  return all.front();
}

}  // namespace

TEST_CASE("a record's text is read back, whatever is in its values") {
  const std::string awkward("a 3:b\nc\0d", 9);
  const std::string text = ArtifactRecord().add("one", awkward).add("two", "").take();
  CHECK(text == "one 9:" + awkward + "\ntwo 0:\n");
  const auto fields = parse_record(text);
  REQUIRE(fields);
  REQUIRE(fields->size() == 2);
  CHECK(fields->at(0).name == "one");
  CHECK(fields->at(0).value == awkward);
  CHECK(fields->at(1).value.empty());
}

TEST_CASE("a text that is no record gives none") {
  for (const char* text : {"x", "x 1", "x 1:", "x 1:a", "x 2:a\n", "x :a\n", "x -1:a\n", "x 1a:a\n",
                           "x 99999999999999999999:a\n", "one 1:a\nrubbish"}) {
    CHECK(!parse_record(text));
  }
  CHECK(parse_record("")->empty());
}

TEST_CASE("equal records do not differ, also when flags come in another order") {
  CHECK(record_differences(Request().text(), Request().text()).empty());
  const std::string forth = ArtifactRecord().add("flag", "-a").add("flag", "-b").take();
  const std::string back = ArtifactRecord().add("flag", "-b").add("flag", "-a").take();
  CHECK(record_differences(forth, back).empty());
}

TEST_CASE("the part that differs is named as a person would") {
  Request stored;
  stored.digest = "22";
  CHECK(only_difference(stored).part == "template tile/tile.cuh");
  CHECK(only_difference(stored).stored == "22");
  CHECK(only_difference(stored).wanted == "11");
  stored = {};
  stored.arch = "sm_100a";
  CHECK(only_difference(stored).part == "arch");
  stored = {};
  stored.flag = "-b";
  CHECK(only_difference(stored).part == "flag");
  CHECK(only_difference(stored).stored == "-b");
  CHECK(only_difference(stored).wanted == "-a");
  stored = {};
  stored.source = "one\nTWO\nTHREE\n";
  CHECK(only_difference(stored).part == "CUDA text, line 2");
  CHECK(only_difference(stored).stored == "TWO");
  stored.source = "one\ntwo\n";
  CHECK(only_difference(stored).part == "CUDA text, line 3");
  CHECK(only_difference(stored).stored.empty());
  stored = {};
  stored.recipe = R"({"kernel":"k","launches":[{"block":384}]})";
  CHECK(only_difference(stored).part == "recipe, /launches/0/block");
  CHECK(only_difference(stored).stored == "384");
  CHECK(only_difference(stored).wanted == "128");
  stored.recipe = "no JSON";
  CHECK(only_difference(stored).part == "recipe");
}

TEST_CASE("what only one of the two has is a difference, and so is a text that is no record") {
  const std::string less = ArtifactRecord().add("a", "1").take(),
                    more = ArtifactRecord().add("a", "1").add("b", "2").take();
  const auto missing = record_differences(less, more), left_over = record_differences(more, less);
  REQUIRE(missing.size() == 1);
  CHECK((missing[0].part == "b" && missing[0].stored.empty() && missing[0].wanted == "2"));
  REQUIRE(left_over.size() == 1);
  CHECK((left_over[0].part == "b" && left_over[0].stored == "2" && left_over[0].wanted.empty()));
  CHECK(record_differences("rubbish", less).size() == 2);
}

TEST_CASE("long values are cut for people") {
  Request stored;
  stored.source = std::string(5000, 'x');
  CHECK(only_difference(stored).stored.size() < 120);
}
