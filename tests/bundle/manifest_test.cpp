// Manifests of prebuild: what they say, and what is wrong with them.
#include "tools/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_system.h"
#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::tools;

namespace {

std::string message(const std::string& text) {
  const Result<Manifest> manifest = parse_manifest(text, "");
  return manifest ? "" : manifest.error().message;
}
std::string in_spec(const std::string& fields) {
  return message(R"({"manifest":1,"specs":[{"spec":"a.epi",)" + fields + "}]}");
}

std::vector<std::string> keys(const nlohmann::json& properties) {
  std::vector<std::string> names;
  for (const auto& [name, value] : properties.items()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a manifest's specs, with what they have in common") {
  const Result<Manifest> manifest = parse_manifest(R"({
    "manifest": 1,
    "plans": "tuning.json",
    "targets": ["sm_90a"],
    "unfused": true,
    "specs": [
      {"spec": "fc1.epi", "kernels": ["fc1"], "dims": [{"E": 8, "K": 7168}, {"E": 16}], "without": [[], ["bias"]]},
      {"spec": "/specs/fc2.epi", "schedule": "pingpong 128x192"}
    ]})",
                                                   "models");
  REQUIRE(manifest);
  CHECK(manifest->plans == "models/tuning.json");
  REQUIRE(manifest->specs.size() == 2);
  const ManifestSpec& first = manifest->specs[0];
  CHECK(first.spec == "models/fc1.epi");
  CHECK(first.kernels == std::vector<std::string>{"fc1"});
  CHECK(first.dims == std::vector<std::map<std::string, int64_t>>{{{"E", 8}, {"K", 7168}}, {{"E", 16}}});
  CHECK(first.without == std::vector<std::set<std::string>>{{}, {"bias"}});
  CHECK(first.targets.size() == 1);
  CHECK(first.unfused);
  CHECK(manifest->specs[1].spec == "/specs/fc2.epi");
  CHECK(manifest->specs[1].schedule == "pingpong 128x192");
  CHECK(manifest->specs[1].dims.empty());
}

TEST_CASE("mistakes in a manifest are named by their place") {
  CHECK(message("{") == "this is no JSON (character 2)");
  CHECK(message("{\n\"manifest\": 1,\n\"manifest\": 1}") ==
        "this is JSON in which an object has the key 'manifest' twice");
  CHECK(message(std::string(100000, '[')) == "this is JSON that nests deeper than 100 levels, which is not read");
  CHECK(message(R"({"manifest": 1, "specs": [{"spec": "a.epi\u0000b"}]})") ==
        "this is JSON with the character 0 in a text, which is not read");
  CHECK(message(R"({"manifest": 1, "specs": [{"spec": "a.epi", "dims": [{"K": 18446744073709551615}]}]})") ==
        "specs[0].dims[0].K: this must be a whole number above 0");
  CHECK(message("[]") == "this must be an object");
  CHECK(message(R"({"specs":[{"spec":"a.epi"}]})") == "'manifest' is missing");
  CHECK(message(R"({"manifest":1})") == "'specs' is missing");
  CHECK(message(R"({"manifest":2,"specs":[]})") ==
        "manifest: the version of the manifest is 2, and this Epifuse reads 1");
  CHECK(message(R"({"manifest":1,"specs":[]})") == "specs: this must be a list of one or more");
  CHECK(message(R"({"manifest":1,"specs":[{}]})") == "specs[0]: 'spec' is missing: the path of a spec");
  CHECK(message(R"({"manifest":1,"spec":[]})") == "spec: there is no such key; did you mean 'specs'?");
  CHECK(in_spec(R"("dim":[])") == "specs[0].dim: there is no such key; did you mean 'dims'?");
  CHECK(in_spec(R"("dims":{"K":1})") == "specs[0].dims: this must be a list of one or more");
  CHECK(in_spec(R"("dims":[{"K":0}])") == "specs[0].dims[0].K: this must be a whole number above 0");
  CHECK(in_spec(R"("dims":[{"K":1.5}])") == "specs[0].dims[0].K: this must be a whole number above 0");
  CHECK(in_spec(R"("targets":["sm_10"])") ==
        "specs[0].targets[0]: target 'sm_10' is not supported; supported targets: sm_90a");
  CHECK(in_spec(R"("without":["bias"])") == "specs[0].without[0]: this must be a list of names");
  CHECK(in_spec(R"("unfused":1)") == "specs[0].unfused: this must be true or false");
  CHECK(in_spec(R"("schedule":"")") == "specs[0].schedule: this must be a text");
}

TEST_CASE("the schema has the keys that are read, and no others") {
  const Result<std::string> text = real_file_system().read(EPIFUSE_SOURCE_DIR "/docs/prebuild_manifest.schema.json");
  REQUIRE(text);
  const nlohmann::json schema = nlohmann::json::parse(*text);
  CHECK(keys(schema["properties"]) == manifest_keys());
  CHECK(keys(schema["$defs"]["spec"]["properties"]) == manifest_spec_keys());
  CHECK_FALSE(schema["additionalProperties"].get<bool>());
  CHECK_FALSE(schema["$defs"]["spec"]["additionalProperties"].get<bool>());
  CHECK(schema["required"] == nlohmann::json({"manifest", "specs"}));
  CHECK(schema["$defs"]["spec"]["required"] == nlohmann::json({"spec"}));
}
