// Runs a compiled kernel on a GPU from host buffers to host buffers. On the CPU interpreter::run does the same.
#pragma once

#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/problem.h"
#include "jit/launch_sequence.h"

namespace epifuse::jit {

struct RunOptions {
  interpreter::Params params;
  int sm_margin = 0;
};

// `buffers` has inputs and group sizes, and may have outputs with what they hold before (needed for `+=`); other
// outputs hold zeros before. Returned are the outputs. Everything is checked first, the group sizes too: the errors are
// those of interpreter::Problem::bind and runtime::bind_call.
Result<interpreter::Buffers> run_on_gpu(Engine& engine, const CompiledKernelPtr& kernel,
                                        const interpreter::Buffers& buffers, const RunOptions& options,
                                        const runtime::DevicePtr& device);

// The same of a kernel that is loaded, fused or not; `graph` is the resolved one, without grad.
Result<interpreter::Buffers> run_on_gpu(const ir::Graph& graph, const LaunchSequence& kernel,
                                        const interpreter::Buffers& buffers, const RunOptions& options);

}  // namespace epifuse::jit
