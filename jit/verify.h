// Proves a compiled kernel right on a GPU, or shows where it is wrong: the fused kernel, the same kernel with each
// operation on its own (jit/unfused.h) and the interpreter, side by side, value by value
// (compiler/interpreter/compare.h).
//
// Every buffer ends at an unmapped page. The fused kernel runs twice over outputs that hold 0xFF bytes, then 0xAA
// bytes, so what it forgets to write cannot look right by chance; both results are judged, and they must agree. Memory
// around the buffers must come back untouched, inputs too. Where a value is stored as f32 and quantised as well, the
// quantised bytes must be those of the f32 values (jit/requantise.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/interpreter/compare.h"
#include "jit/inputs.h"
#include "jit/requantise.h"
#include "jit/stored_difference.h"
#include "jit/unfused.h"

namespace epifuse::jit {

struct VerifyOptions {
  InputOptions inputs;
  interpreter::Params params;
  int sm_margin = 0;
  CompiledUnfusedPtr unfused;  // of the same spec and options; null: not compared
  // From so many multiply-adds on, the reference's products are made on the GPU (jit/reference_gemm.h).
  double gpu_gemm_from = 1e9;
};

struct VerifyReport {
  bool ok = true;
  std::vector<interpreter::Verdict> outputs;              // of the fused kernel's run that came out worse
  std::vector<interpreter::Verdict> unfused;              // the same outputs; empty when not compared
  std::vector<StoredDifference> differences;              // fused against unfused; empty when not compared
  std::vector<Requantised> requantised;                   // of the fused kernel
  size_t unfused_stages = 0;                              // 0: not compared
  std::optional<interpreter::Verdict> first_wrong_stage;  // looked for when an unfused output is wrong
  std::vector<std::string> problems;                      // what no verdict says: memory touched, two runs that differ
  std::vector<std::pair<std::string, std::vector<int64_t>>> group_counts;  // rows of each group, by dimension
  double inputs_seconds = 0, gpu_seconds = 0, reference_seconds = 0, judge_seconds = 0;

  std::string print() const;
  std::string to_json() const;
};

// Errors are of the environment, or of what the caller gave; a wrong result is a report that is not ok.
Result<VerifyReport> verify(Engine& engine, const CompiledKernelPtr& kernel, const VerifyOptions& options,
                            const runtime::DevicePtr& device);

}  // namespace epifuse::jit
