// Two results for one output against each other, as they are stored: the fused kernel's and the unfused one's.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/problem.h"

namespace epifuse::jit {

struct StoredDifference {
  std::string output;
  double norm = 0;             // |first - second| / |second|, of what both stored as a number
  std::vector<double> groups;  // the same of each group, in their order; empty when nothing is grouped
  int64_t elements = 0;        // that belong to the output
  int64_t different = 0;       // whose values differ: NaN against a number too
  int64_t one_step = 0;        // … in neighbouring codes, under the same scale (in f32: nearly the same)
  int64_t scales = 0, scales_different = 0;

  double worst_group_norm() const;
  int worst_group() const;  // -1: none
};

// `first` and `second` have the output's buffers. Refuses, by name, the types that the interpreter does not know.
Result<StoredDifference> stored_difference(const ir::Graph& graph, const interpreter::Buffers& inputs,
                                           const interpreter::Params& params, const ir::Output& output,
                                           const interpreter::Buffers& first, const interpreter::Buffers& second,
                                           int threads);

}  // namespace epifuse::jit
