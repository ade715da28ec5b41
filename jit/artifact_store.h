// ArtifactStore: where toolchain and cache meet. It turns a build (CUDA text and launch recipe) into a kernel image:
// found in the cache, or compiled and published.
//
// A build whose image spills registers or serialises wgmma is refused. Two entries remember that: a redirect under the
// build's own key, so that no process compiles it again, and the image under a second key, for the case that every
// other plan is refused too; the image is published first, so whoever sees the redirect finds it.
//
// Without a toolchain, or where compiling is switched off, an entry that any toolchain made of the same text is used.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/kernel_image.h"
#include "base/log.h"
#include "cache/kernel_cache.h"
#include "compiler/toolchain/toolchain.h"

namespace epifuse::jit {

// Where an image came from, for `compile --json` and the log.
enum class From { memory, disk, toolchain, bundle };
std::string_view from_name(From from);

// What is compiled, and what a listing of the cache says about it.
struct Build {
  toolchain::CompileRequest request;
  LaunchRecipe recipe;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::string schedule;
};

// What the toolchain took, in this call; nothing where it was not asked.
struct ToolchainTimes {
  double milliseconds = 0;
  toolchain::PhaseTimes phases;
};

struct Artifact {
  KernelImage image;
  std::string ptx;  // only when it was compiled just now
  std::string key;  // the entry's file name
  From from = From::toolchain;
  ToolchainTimes times;
};

struct Refusal {
  int spill_bytes = 0;
  bool wgmma_serialized = false;
  ToolchainTimes times;
  bool compiled = false;  // by this very call
  std::string ptx;        // then

  std::string reason() const;  // "spills 48 bytes"
  // Whether this is the better plan to fall back on: waiting for every wgmma costs more than any spill.
  bool better_than(const Refusal& other) const;
};

// Whether a whole entry is what an ArtifactStore writes, or what one of another version of Epifuse wrote
// (cache::ContentCheck).
cache::ContentVerdict check_entry(const cache::EntryView& entry);

// The key of the image itself, where the own key may hold a redirect; it differs in one line of the request.
ArtifactKey key_anyway(const ArtifactKey& key);

class ArtifactStore {
 public:
  // `may_compile` false: a missing artifact is an error.
  ArtifactStore(std::shared_ptr<toolchain::Toolchain> toolchain, FileSystem& disk, cache::CacheOptions options,
                bool may_compile);

  // What becomes of an artifact that is not there. `leave`: an error, and no lock is waited for.
  enum class IfAbsent { compile, leave };
  // Errors (environment): no toolchain and no entry; the toolchain cannot be used. A text that the toolchain refuses is
  // a bug of ours (InternalError).
  Result<std::variant<Artifact, Refusal>> get(const Build& build, IfAbsent if_absent = IfAbsent::compile);
  // The image itself, whatever it spills.
  Result<Artifact> get_anyway(const Build& build, IfAbsent if_absent = IfAbsent::compile);

  // From here on nothing is compiled: an artifact that is not there is an error (environment) that says so.
  void seal() { sealed_ = true; }

  int toolchain_calls() const { return calls_; }
  cache::KernelCache& cache() { return cache_; }
  toolchain::Toolchain& toolchain() { return *toolchain_; }

 private:
  struct Compiled {
    KernelImage image;
    std::string ptx;
    ToolchainTimes times;
  };
  // Set by a make: what this very call compiled.
  using JustCompiled = std::optional<Compiled>;

  // A build with its key, whose making writes the recipe's JSON.
  struct Keyed {
    const Build& build;
    std::string recipe_json;
    ArtifactKey key;
  };
  Keyed keyed(const Build& build) const;
  Result<Compiled> compile(const Build& build);
  Result<cache::Found> find_or_make(const Build& build, const ArtifactKey& key, IfAbsent if_absent,
                                    const std::function<Result<cache::Made>()>& make);
  Result<cache::Found> find_without_compiler(const Build& build, const ArtifactKey& key, const std::string& why);
  static Artifact to_artifact(const Keyed& keyed, const ArtifactKey& key, const cache::Found& found,
                              JustCompiled compiled);
  void log(LogLevel level, const std::string& text) const;

  const std::shared_ptr<toolchain::Toolchain> toolchain_;
  const LogSink log_;
  const bool may_compile_;
  cache::KernelCache cache_;
  std::atomic<int> calls_{0};
  std::atomic<bool> sealed_{false};
};

}  // namespace epifuse::jit
