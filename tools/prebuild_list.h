// The kernels that a manifest or a record asks for: what prebuild compiles, and what --check compares with.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cache/bundle_label.h"
#include "compiler/compiler.h"
#include "jit/request_record.h"
#include "tools/commands.h"
#include "tools/manifest.h"

namespace epifuse::tools {

// A kernel that cannot be built; the others are none the worse for it.
struct NotBuilt {
  std::string what;     // for people: "moe.epi: kernel 'fc1' for sm_90a with E=8"
  std::string message;  // diagnostics, or an error
  ErrorKind kind = ErrorKind::user;
};

// A list may have many thousands: a kernel is planned, seen to be good, and planned again by who needs it.
struct ListedKernel {
  cache::BundleLabel label;
  std::string source;  // jit::source_of
  struct Groups {
    std::string dim, by;  // rows in groups, and how many groups there are
  };
  // What only a launch says: sizes of groups, and of dynamic dimensions.
  std::vector<Groups> groups;
  std::vector<std::string> dyns;
  std::function<PlannedKernel()> plan;
};

struct PrebuildList {
  std::vector<ListedKernel> kernels;  // each request once, in the order of the manifest
  std::vector<NotBuilt> failures;
  std::set<std::string> files;  // that were read for it: specs, and what they use
};

// Every thousand kernels a line on stderr says so.
PrebuildList list_kernels(const Manifest& manifest, Surroundings& world);
PrebuildList list_kernels(const std::vector<jit::RecordedRequest>& record, const std::string& plans,
                          Surroundings& world);

}  // namespace epifuse::tools
