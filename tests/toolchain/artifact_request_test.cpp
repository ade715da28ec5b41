// The artifact key changes with everything that decides the artifact, and with nothing else.
#include "compiler/toolchain/artifact_request.h"

#include <set>

#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::toolchain;

namespace {

CompileRequest request() {
  return {"kernel", "source", {{"a.cuh", "text"}, {"b.cuh", "more"}}, "sm_90a", {"--one", "--two"}};
}

}  // namespace

TEST_CASE("equal requests have equal keys, whatever the program is called") {
  CompileRequest renamed = request();
  renamed.program_name = "another";
  CHECK(artifact_key(request(), "{}", "nvrtc").name() == artifact_key(renamed, "{}", "nvrtc").name());
}

TEST_CASE("every part of the request decides the first part of the name") {
  std::set<std::string> names;
  const auto add = [&](const CompileRequest& changed, const std::string& recipe = "{}") {
    CHECK(names.insert(artifact_key(changed, recipe, "nvrtc").first()).second);
  };
  add(request());
  add(request(), "{ }");
  CompileRequest changed = request();
  changed.source += " ";
  add(changed);
  changed = request(), changed.arch = "sm_100a";
  add(changed);
  changed = request(), changed.headers[0].text = "texT";
  add(changed);
  changed = request(), changed.headers[0].path = "c.cuh";
  add(changed);
  changed = request(), changed.headers.pop_back();
  add(changed);
  changed = request(), changed.flags = {"--two", "--one"};
  add(changed);
  changed = request(), changed.flags = {"--one--two"};
  add(changed);
  changed = request(), changed.flags = {"--one", "--two 4:abcd"};
  add(changed);
  changed = request(), changed.headers = {{"a.cuh", "textpath 5:b.cuh\nheader 4:more"}};
  add(changed);
}

TEST_CASE("the toolchain decides the second part alone") {
  const ArtifactKey one = artifact_key(request(), "{}", "nvrtc 13.0"),
                    other = artifact_key(request(), "{}", "nvrtc 13.1");
  CHECK(one.first() == other.first());
  CHECK(one.name() != other.name());
  CHECK(one.request() == other.request());
}

TEST_CASE("a header whose digest is known stands in the request by that") {
  CompileRequest with = request();
  with.headers[0].sha256 = "0123";
  const ArtifactKey key = artifact_key(with, "{}", "nvrtc");
  CHECK(key.request().find("sha256 4:0123") != std::string::npos);
  CHECK(key.request().find(with.headers[0].text) == std::string::npos);
  CHECK(key.first() != artifact_key(request(), "{}", "nvrtc").first());
  CompileRequest other = with;
  other.headers[0].sha256 = "0124";
  CHECK(key.first() != artifact_key(other, "{}", "nvrtc").first());
  other = with, other.headers[0].path = "elsewhere.cuh";
  CHECK(key.first() != artifact_key(other, "{}", "nvrtc").first());
}
