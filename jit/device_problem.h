// A kernel's inputs and outputs in device memory, made once, for all forms of the kernel that are timed on them: other
// plans of it, and its unfused form. Buffers begin where an allocator puts them, at multiples of 256 bytes.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/launch_recipe.h"
#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/problem.h"
#include "jit/inputs.h"
#include "jit/launch_sequence.h"
#include "runtime/arguments.h"
#include "runtime/device_buffer.h"
#include "runtime/stream.h"

namespace epifuse::jit {

class DeviceProblem {
 public:
  // Inputs as make_inputs makes them, uploaded; outputs hold zeros. The graph has numbers for its `dim`s, and no grad:
  // CompiledKernel::planned.graph, or CompiledUnfused::graph.
  static Result<DeviceProblem> make(const ir::Graph& graph, const InputOptions& options,
                                    const interpreter::Params& params, const runtime::DevicePtr& device);

  // The same buffers once more, at other addresses. Of pointers to buffers the array alone is copied. The copy's
  // number.
  Result<size_t> add_copy();

  // What a form of the kernel is bound with: these buffers (or those of a copy) and a workspace of its own, which stays
  // until this object ends.
  Result<runtime::Arguments> arguments(const LaunchSequence& form, size_t copy = 0);
  // `form.bind` on the above. What is bound must not outlive this object.
  Result<BoundSequence> bind(const LaunchSequence& form);

  int64_t bytes() const;  // of all memory that this object has
  const std::map<std::string, std::vector<int64_t>>& counts() const { return counts_; }  // rows of each group, by dim

 private:
  struct Tensor {
    std::string name;
    Storage storage = Storage::f32;
    std::vector<int64_t> extents;
    int pointer_axes = 0;
    size_t bound_bytes = 0;                     // of what is bound: the buffer, or the array of pointers
    std::vector<cuda::DevicePointer> pointers;  // of the original and of each copy
  };
  DeviceProblem(runtime::DevicePtr device, runtime::OwnedStream stream, interpreter::Params params)
      : device_(std::move(device)), stream_(std::move(stream)), params_(std::move(params)) {}

  Status place(Tensor& tensor, std::span<const std::byte> holds);
  Status copy(Tensor& tensor);
  Result<cuda::DevicePointer> allocate(size_t bytes, std::span<const std::byte> holds);

  runtime::DevicePtr device_;
  runtime::OwnedStream stream_;
  interpreter::Params params_;
  std::vector<Tensor> tensors_;
  std::vector<runtime::DeviceBuffer> memory_;
  std::map<std::string, std::vector<int64_t>> counts_;
};

}  // namespace epifuse::jit
