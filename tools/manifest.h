// What `prebuild` is to build: specs × dims × targets, from a manifest (JSON; docs/prebuild_manifest.schema.json), or
// from a command line.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tools/command_line.h"

namespace epifuse::tools {

// Every kernel with every set of dims, left out names and target. An empty list of dims, left out names or schedules
// means the spec's own.
struct ManifestSpec {
  std::string spec;                                  // path of the file
  std::vector<std::string> kernels;                  // empty: all of the file
  std::vector<std::map<std::string, int64_t>> dims;  // each a set; a kernel takes from it what it has
  std::vector<std::set<std::string>> without;
  std::vector<Target> targets;  // never empty
  std::string schedule;         // the plan that is asked for; empty: ours
  bool unfused = false;         // also the kernels of the unfused form
};

struct Manifest {
  std::vector<ManifestSpec> specs;
  std::string plans;  // a tuning file; empty: none
};

// Paths in it are from `folder`, where the manifest lies. Errors (user) name the place: "specs[1].dims[0].K".
Result<Manifest> parse_manifest(std::string_view text, const std::string& folder);

Manifest manifest_of(const CommandLine& line);

// The keys that a manifest and one of its specs may have, sorted: a test holds the schema to them.
std::vector<std::string> manifest_keys();
std::vector<std::string> manifest_spec_keys();

}  // namespace epifuse::tools
