// Kernels that are launched one behind the other on a stream and look like one from outside: a fused kernel alone, or
// the stages of its unfused form (jit/unfused.h) with the tensors between them in the workspace.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/engine.h"

namespace epifuse::jit {

// A tensor between stages: contiguous, written by one and read by later ones.
struct BetweenTensor {
  RecipeTensor tensor;
  int made_by = 0, last_read_by = 0;  // stages
};

// Immutable; may be launched from several threads and on several streams at once, if it needs no workspace.
class BoundSequence {
 public:
  // As those of runtime::BoundCall.
  Status launch(cuda::Stream stream, const runtime::LaunchOptions& options) const;
  Status launch(cuda::Stream stream, int sm_margin = 0) const {
    return launch(stream, runtime::LaunchOptions{sm_margin});
  }
  // Of a fused kernel alone. An unfused one has its buffers in several calls and is bound anew (user error).
  Status rebind(std::span<const cuda::DevicePointer> tensors, cuda::DevicePointer workspace);
  Status synchronize(cuda::Stream stream) const;
  Status check_group_sizes(cuda::Stream stream) const;

 private:
  friend class LaunchSequence;
  BoundSequence(std::vector<runtime::BoundCall> calls, bool is_fused) : calls_(std::move(calls)), is_fused_(is_fused) {}
  std::vector<runtime::BoundCall> calls_;  // at least one
  bool is_fused_;
};

class LaunchSequence {
 public:
  LaunchSequence(LoadedKernel kernel);
  // `whole` has what the caller binds: tensors, symbols, params, and no steps. `between` is in the order of its makers.
  LaunchSequence(LaunchRecipe whole, std::vector<BetweenTensor> between, std::vector<LoadedKernel> stages,
                 std::vector<runtime::NamedInteger> dims);

  const LaunchRecipe& recipe() const { return whole_->recipe; }
  const std::vector<BetweenTensor>& between() const { return between_; }
  const std::vector<runtime::NamedInteger>& dims() const { return dims_; }
  const runtime::DevicePtr& device() const { return stages_.front().module->device_ptr(); }

  // As those of runtime (runtime/bind.h). A tensor between stages that is among the arguments is taken from there, and
  // needs no room in the workspace; one whose last reader has run leaves its room to others.
  Result<int64_t> workspace_bytes(const runtime::Arguments& arguments) const;
  Result<BoundSequence> bind(const runtime::Arguments& arguments) const;

 private:
  struct Layout;
  Result<Layout> lay_out(const runtime::Arguments& arguments) const;
  runtime::Arguments arguments_of(size_t stage, const runtime::Arguments& arguments, const Layout& layout) const;
  bool is_fused() const { return between_.empty() && stages_.size() == 1; }

  std::shared_ptr<const runtime::CompiledRecipe> whole_;
  std::vector<BetweenTensor> between_;
  std::vector<LoadedKernel> stages_;
  std::vector<runtime::NamedInteger> dims_;
};

}  // namespace epifuse::jit
