// A kernel with its buffers: everything that can be checked is checked and everything that can be computed is computed
// when a call is bound, so that a launch is one driver call per kernel.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/buffer_ranges.h"
#include "runtime/module.h"

namespace epifuse::runtime {

// Bytes of workspace that a call with these sizes needs (0: none). Looks at extents, strides and dims only. What the
// workspace holds before a launch does not matter.
Result<int64_t> workspace_bytes(const Module& module, const Arguments& arguments);

// A value that may depend on how many multiprocessors a launch may use.
struct PerSmCount {
  int64_t whole = 0;  // with all of the device's
  // With fewer: factor * count, `most` at most, as in nearly every recipe; or else by a program of the module's recipe.
  // Without either, `whole` as well.
  int64_t factor = 0, most = 0;
  const IntProgram* program = nullptr;

  bool is_fixed() const { return factor == 0 && !program; }
};

// Of one launch.
struct LaunchOptions {
  int sm_margin = 0;  // multiprocessors that are left to others
  // The first kernel may start while what is before it in the stream still runs (programmatic dependent launch): it
  // does what depends on no memory, then waits. A kernel before it that lets it start early must itself have waited for
  // what is before that. Without effect where the driver or the kernel cannot.
  bool overlap_previous = false;
};

// May be launched from several threads and on several streams at once, if the kernel needs no workspace; a workspace
// serves one launch in flight. Only rebind() changes it.
class BoundCall {
 public:
  // Enqueues the kernel's steps on `stream` and returns. Allocates nothing, takes no lock, waits for nothing, and can
  // be captured. A call without rows enqueues nothing and succeeds.
  // Errors: a margin that leaves no multiprocessor (user); what the driver says (environment), naming the kernel. With
  // a margin also an expression of the recipe that has no value for so few (user): then nothing was enqueued.
  Status launch(cuda::Stream stream, const LaunchOptions& options) const;
  Status launch(cuda::Stream stream, int sm_margin = 0) const { return launch(stream, LaunchOptions{sm_margin}); }

  // Other buffers of the same sizes and strides, with the same dims and params: their addresses in the recipe's order,
  // and that of a workspace as large as the bound one. Launches that are enqueued already keep theirs; none may be
  // enqueued at the same time. Allocates nothing and asks the driver nothing: everything is checked that the host sees
  // (null, alignment, overlap), and that the memory is of this GPU is taken on trust.
  // Errors: those checks, another number of addresses (user); what the driver says (environment). Then nothing changed.
  Status rebind(std::span<const cuda::DevicePointer> tensors, cuda::DevicePointer workspace);

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
    const ParameterField* field;
    PerSmCount value;
  };
  struct Step {
    bool is_memset = false;
    // launch
    cuda::LaunchConfig config{};  // but for the grid, the stream and attributes
    bool waits = false;           // for what is before it, by itself
    PerSmCount grid;
    std::vector<Chunk> parameters;
    std::vector<SmField> sm_fields;
    // memset
    uint64_t workspace_offset = 0;
    size_t bytes = 0;
  };
  struct Place {        // where an address of a buffer is written
    uint32_t step, at;  // bytes into the step's parameters
    uint32_t buffer;
    bool is_map;
    uint64_t offset;  // bytes from the buffer's begin
  };
  struct GroupSizes {
    uint32_t buffer;
    int64_t count, capacity, slot;
  };

  explicit BoundCall(ModulePtr module) : module_(std::move(module)) {}
  // overlaps: the step may start early, if it waits by itself; then, whether the next may.
  Status launch_step(size_t index, cuda::Stream stream, int sm_count, bool primary, bool& overlaps) const;
  // With fewer multiprocessors than the device's: that every value exists and fits; then, one of them.
  Status check_margin(int sm_count) const;
  int64_t value_at(const PerSmCount& value, int sm_count) const;
  Error failed(cuda::Code code, std::string_view doing, const std::string& entry) const;
  // Of buffers whose address is not the previous one.
  Status write_addresses();

  friend class Binder;
  ModulePtr module_;
  std::vector<Step> steps_;
  std::vector<std::optional<int64_t>> slots_;  // of the module's recipe, with all multiprocessors
  std::vector<BufferRange> buffers_;           // of the recipe's tensors, then of the workspace
  std::vector<cuda::DevicePointer> previous_;  // a rebind's memory of them
  std::vector<Place> places_;
  std::vector<GroupSizes> group_sizes_;
};

// What a launch can take. Errors (user) name the entry or the field.
Status check_grid(const std::string& entry, int64_t blocks);
Status check_fits(const ParameterField& field, int64_t value);

// Checks the arguments against the recipe, encodes the tensor maps and fills the parameter structs.
// Beyond resolve_arguments (runtime/arguments.h): pointers must be aligned, lie in memory of the module's device, and
// an output (or the workspace) must not overlap anything; the workspace must be large enough; params must be known.
// Of a tensor of pointers this is said of the array alone: the pointers in it are known to the device only.
// Errors (user) name the tensor, what was given and what is wanted.
Result<BoundCall> bind_call(ModulePtr module, const Arguments& arguments);

}  // namespace epifuse::runtime
