// The kernels that a manifest or a record asks for, planned: what prebuild compiles, and what --check compares with.
#pragma once

#include <string>
#include <vector>

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

struct PrebuildList {
  std::vector<PlannedKernel> kernels;  // each request once, in the order of the manifest
  std::vector<NotBuilt> failures;
};

PrebuildList list_kernels(const Manifest& manifest, Surroundings& world);
PrebuildList list_kernels(const std::vector<jit::RecordedRequest>& record, const std::string& plans,
                          Surroundings& world);

}  // namespace epifuse::tools
