// A kernel with its buffers: everything that can be checked is checked and everything that can be computed is computed
// when a call is bound, so that a launch is one driver call per kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/module.h"

namespace epifuse::runtime {

// Bytes of workspace that a call with these sizes needs (0: none). Looks at extents, strides and dims only. What the
// workspace holds before a launch does not matter.
Result<int64_t> workspace_bytes(const Module& module, const Arguments& arguments);

// A value that may depend on how many multiprocessors a launch may use: the value itself, or one for each count.
struct PerSmCount {
  int64_t fixed = 0;
  std::vector<int64_t> table;  // [sm_count]; empty: `fixed`

  int64_t at(int sm_count) const { return table.empty() ? fixed : table[static_cast<size_t>(sm_count)]; }
};

// Immutable. May be launched from several threads and on several streams at once, if the kernel needs no workspace; a
// workspace serves one launch in flight.
class BoundCall {
 public:
  // Enqueues the kernel's steps on `stream` and returns. Allocates nothing, takes no lock, waits for nothing, and can
  // be captured. `sm_margin` multiprocessors are left to others. A call without rows enqueues nothing and succeeds.
  // Errors: a margin that leaves no multiprocessor (user); what the driver says (environment), naming the kernel.
  Status launch(cuda::Stream stream, int sm_margin = 0) const;

  // Waits for the stream; an error names this kernel.
  Status synchronize(cuda::Stream stream) const;

  // Copies the group sizes from the device (waits for the stream) and checks them: sizes that are not monotone, or pass
  // the capacity, make a kernel read and write where it must not.
  Status check_group_sizes(cuda::Stream stream) const;

  const Module& module() const { return *module_; }

 private:
  friend Result<BoundCall> bind_call(ModulePtr module, const Arguments& arguments);

  struct alignas(64) Chunk {
    std::byte bytes[64];
  };
  struct SmField {  // a parameter that depends on the margin
    uint32_t offset, size;
    PerSmCount value;
  };
  struct Step {
    bool is_memset = false;
    // launch
    cuda::LaunchConfig config{};  // but for the grid and the stream
    PerSmCount grid;
    std::vector<Chunk> parameters;
    std::vector<SmField> sm_fields;
    // memset
    cuda::DevicePointer address = 0;
    size_t bytes = 0;
  };
  struct GroupSizes {
    const RecipeTensor* tensor;
    cuda::DevicePointer pointer;
    int64_t count, capacity, slot;
  };

  explicit BoundCall(ModulePtr module) : module_(std::move(module)) {}
  Status launch_step(size_t index, cuda::Stream stream, int sm_count, bool primary) const;
  Error failed(cuda::Code code, std::string_view doing, const std::string& entry) const;

  friend class Binder;
  ModulePtr module_;
  std::vector<Step> steps_;
  std::vector<GroupSizes> group_sizes_;
};

// Checks the arguments against the recipe, encodes the tensor maps and fills the parameter structs.
// Beyond resolve_arguments (runtime/arguments.h): pointers must be aligned, lie in memory of the module's device, and
// an output (or the workspace) must not overlap anything; the workspace must be large enough; params must be known.
// Of a tensor of pointers this is said of the array alone: the pointers in it are known to the device only.
// Errors (user) name the tensor, what was given and what is wanted.
Result<BoundCall> bind_call(ModulePtr module, const Arguments& arguments);

}  // namespace epifuse::runtime
