// The digest is XXH3-128, spelled high half first: stored file names depend on it.
#include "base/digest.h"

#include "base/artifact_key.h"
#include "tests/support/catch.h"

using namespace epifuse;

TEST_CASE("known digests") {
  CHECK(digest("").hex() == "99aa06d3014798d86001c324468d497f");  // published by xxHash
  CHECK(digest("a") != digest("b"));
  CHECK(digest(std::string_view("a\0", 2)) != digest("a"));
  CHECK(digest("x").hex().size() == 32);
}

TEST_CASE("an artifact's name has a part for the request and one for the toolchain") {
  const ArtifactKey key("request", "toolchain"), other_tool("request", "another"), other("requesu", "toolchain");
  CHECK(key.name() == digest("request").hex() + "." + digest("toolchain").hex());
  CHECK(key.first() == other_tool.first());
  CHECK(key.name() != other_tool.name());
  CHECK(key.first() != other.first());
}
