// Between compiled kernels and the entries of bundles: what an entry says of its making, and what is said when a bundle
// does not have a kernel.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel_image.h"
#include "base/result.h"
#include "cache/bundle_set.h"
#include "compiler/compiler.h"

namespace epifuse::jit {

struct CompiledKernel;

// How an entry was made (cache::BundleEntry::info), as JSON. Nothing in it depends on when or where.
struct BundleInfo {
  struct Refused {
    std::string plan, reason;
    std::string source;  // as below, of this plan
  };
  std::string epifuse;    // version that built it
  std::string toolchain;  // its identity: recorded, and not matched
  std::string key;        // the name that the cache has for the artifact
  std::string plan;       // of the schedule
  std::string tuned;      // the plan that the tuning file named, by its one name; empty: none
  // Digest of everything that the toolchain was given (ArtifactKey::first): another one means that today's compiler
  // would make another kernel.
  std::string source;
  std::vector<Refused> refused;  // plans that were tried before, in order
  // Digest of the entry's other parts: of one build, and of no two. Empty: not said.
  std::string content;

  std::string to_json() const;
  static Result<BundleInfo> parse(std::string_view json);
};

cache::BundleLabel label_of(const PlannedKernel& planned);

// An entry with all that it holds understood, as tools look at it: beyond what every use checks (deploy::image_of), its
// parts must be those that it was made of. An error (wrong) names the kernel and the bundle.
struct ReadEntry {
  BundleInfo info;
  KernelImage image;
};
Result<ReadEntry> read_entry(const cache::BundleEntry& entry, const std::string& bundle);

// Everything of a bundle: every byte of it, and all that its entries hold understood. The error is of the first that is
// not as it should be.
Status verify_bundle(const cache::BundleReader& bundle);

// A kernel that was just compiled, or taken from the cache, for a bundle.
cache::BundleEntry bundle_entry(const CompiledKernel& kernel, const std::string& toolchain);

// Digest of what the toolchain is given for the first plan, as BundleInfo::source: kernels that have the same are one
// compile.
std::string source_of(const PlannedKernel& planned);

// Why an entry is not what a build of this plan list would make: "the plan pingpong 128x192 has another CUDA text".
// Empty: it is. Nothing is compiled.
std::string why_stale(const BundleInfo& info, const PlannedKernel& planned);

// What bundles answer to a request.
struct BundleAnswer {
  struct Kernel {
    std::string bundle;  // its name
    BundleInfo info;
    KernelImage image;
  };
  std::optional<Kernel> kernel;  // that is used
  // Why one that is there is not used: it cannot be, or the tuning file wants another plan. Empty: there is none.
  std::string unusable, passed_over;

  bool found_one() const { return kernel || !unusable.empty() || !passed_over.empty(); }
};
// `tuned_first`: a tuning file on this machine is newer than any bundle, so that its plan is compiled. Where nothing is
// compiled, the bundle is all there is.
BundleAnswer ask_bundles(cache::BundleSet& bundles, const PlannedKernel& planned, bool tuned_first);

// For a kernel that no bundle has: which bundles there are, what comes nearest, what differs, and the command that
// builds it. Lines, the first without indentation.
std::string explain_miss(cache::BundleSet& bundles, const PlannedKernel& planned);

}  // namespace epifuse::jit
