// A loaded kernel with buffers of its own on the GPU: what run.cpp and verify.cpp share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/problem.h"
#include "jit/device_tensor.h"
#include "jit/launch_sequence.h"
#include "runtime/guard_buffer.h"
#include "runtime/stream.h"

namespace epifuse::jit {

class DeviceCall {
 public:
  // Takes a buffer for every tensor of the recipe from `buffers` (uploaded) or `outputs` (its shape), and for those
  // tensors between the stages that are among the outputs; each ends at an
  // unmapped page, and so does the workspace, if any. A tensor of pointers has a buffer for each of them.
  static Result<DeviceCall> make(const LaunchSequence& kernel, const interpreter::Buffers& buffers,
                                 const interpreter::Buffers& outputs, const interpreter::Params& params);

  // What the outputs hold before a launch: every byte, or what `before` has for it. The workspace is filled as well,
  // but never with zeros: a kernel that counts on a cleared one must not come out right by chance.
  Status fill_outputs(uint8_t byte, const interpreter::Buffers& before);
  // Launches and waits. The group sizes are checked first.
  Status launch(int sm_margin);
  Status download(interpreter::Buffers& outputs) const;

  const BoundSequence& bound() const { return call_; }
  cuda::Stream stream() const { return stream_.get(); }
  // The memory of a tensor of the recipe (InternalError: there is none).
  DeviceTensor& memory(std::string_view name);

  // What was written that must not be, one line each: memory around the buffers and the workspace,
  // inputs, and arrays of pointers.
  Result<std::vector<std::string>> misplaced_writes(const interpreter::Buffers& buffers) const;

 private:
  struct Tensor {
    std::string name;
    bool is_output;
    DeviceTensor memory;
  };
  DeviceCall(BoundSequence call, std::vector<Tensor> tensors, std::vector<runtime::GuardBuffer> workspace,
             runtime::OwnedStream stream)
      : tensors_(std::move(tensors)),
        workspace_(std::move(workspace)),
        stream_(std::move(stream)),
        call_(std::move(call)) {}

  std::vector<Tensor> tensors_;
  std::vector<runtime::GuardBuffer> workspace_;  // one or none
  runtime::OwnedStream stream_;
  BoundSequence call_;
};

}  // namespace epifuse::jit
