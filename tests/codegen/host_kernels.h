// Generated pointwise kernels, compiled by the host's compiler over stand-ins for CUDA (host/), and run thread by
// thread: what the device would do, without one.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/problem.h"
#include "compiler/lowering/kernel_plan.h"
#include "tests/support/scratch_directory.h"

namespace epifuse::test {

class HostKernels {
 public:
  // Kernels need different names.
  void add(const ir::Graph& graph, const lowering::KernelPlan& plan);
  void compile();
  ~HostKernels();

  // Runs the launches of the kernel with this number in their order. `outputs` hold what they held before. The grid is
  // that of `multiprocessors`.
  void run(size_t kernel, const interpreter::Problem& problem, const interpreter::Buffers& inputs,
           const interpreter::Params& params, interpreter::Buffers& outputs, int multiprocessors) const;

 private:
  ScratchDirectory scratch_;
  std::vector<lowering::KernelPlan> plans_;
  std::string source_;
  void* library_ = nullptr;
};

}  // namespace epifuse::test
