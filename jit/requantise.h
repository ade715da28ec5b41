// Whether the codes and scales that a kernel stored are those of the very f32 values that it stored beside them: the
// quantiser alone is on trial then, bit for bit, and not the arithmetic before it.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/problem.h"

namespace epifuse::jit {

struct Requantised {
  std::string output;  // of a scaled type
  std::string values;  // the f32 output that was quantised again on the host
  // Of the different ones, `one_step` are neighbours of the right code, under the same scale or another.
  int64_t codes = 0, codes_different = 0, codes_one_step = 0;
  int64_t scales = 0, scales_different = 0, scales_one_step = 0;

  bool ok() const { return codes_different == 0 && scales_different == 0; }
};

// For each scaled output whose value is also stored as f32. `stored` has all outputs, whose bytes were `poison` before;
// `inputs` the group sizes.
Result<std::vector<Requantised>> requantise(const ir::Graph& graph, const interpreter::Buffers& inputs,
                                            const interpreter::Buffers& stored, uint8_t poison, int threads);

}  // namespace epifuse::jit
