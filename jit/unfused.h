// A kernel as one generated kernel for each of its operations: what a fused kernel is compared with, and what one can
// live with when a fused one is in doubt. It is bound and launched as a fused one is.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "jit/engine.h"
#include "jit/launch_sequence.h"

namespace epifuse::jit {

struct CompiledUnfused {
  ir::Graph graph;  // resolved: what the interpreter runs
  lowering::Unfused unfused;
  std::vector<CompiledKernelPtr> stages;  // as in `unfused`
  LaunchRecipe recipe;                    // what a caller binds; no steps
  double milliseconds = 0;                // spec to images, in this call

  std::vector<runtime::NamedInteger> dims() const;
  std::vector<BetweenTensor> between() const;
};
using CompiledUnfusedPtr = std::shared_ptr<const CompiledUnfused>;

// As Engine::compile; stages that are not in the cache are compiled on several threads (`threads` 0: one for each
// core). A schedule among the options is for fused kernels, and an error (user).
Result<std::optional<CompiledUnfusedPtr>> compile_unfused(Engine& engine, const Program& program,
                                                          std::string_view kernel, const CompilerOptions& options,
                                                          Diagnostics& diagnostics, int threads = 0);

Result<LaunchSequence> load_unfused(Engine& engine, const CompiledUnfusedPtr& compiled,
                                    const runtime::DevicePtr& device);

}  // namespace epifuse::jit
