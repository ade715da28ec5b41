// Proves a compiled kernel right on a GPU, or shows where it is wrong: the fused kernel's outputs against the
// interpreter's, value by value (compiler/interpreter/compare.h).
//
// Every buffer ends at an unmapped page. The kernel runs twice over outputs that hold 0xFF bytes, then 0xAA bytes, so
// what it forgets to write cannot look right by chance; both results are judged, and they must agree. Memory around the
// buffers must come back untouched, inputs too.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/compare.h"
#include "jit/engine.h"
#include "jit/inputs.h"

namespace epifuse::jit {

struct VerifyOptions {
  InputOptions inputs;
  interpreter::Params params;
  int sm_margin = 0;
  // From so many multiply-adds on, the reference's products are made on the GPU (jit/reference_gemm.h).
  double gpu_gemm_from = 1e9;
};

struct VerifyReport {
  bool ok = true;
  std::vector<interpreter::Verdict> outputs;  // of the run that came out worse
  std::vector<std::string> problems;          // what no verdict says: memory touched, two runs that differ
  std::vector<std::pair<std::string, std::vector<int64_t>>> group_counts;  // rows of each group, by dimension
  double inputs_seconds = 0, gpu_seconds = 0, reference_seconds = 0, judge_seconds = 0;

  std::string print() const;
  std::string to_json() const;
};

// Errors are of the environment, or of what the caller gave; a wrong result is a report that is not ok.
Result<VerifyReport> verify(Engine& engine, const CompiledKernelPtr& kernel, const VerifyOptions& options,
                            const runtime::DevicePtr& device);

}  // namespace epifuse::jit
