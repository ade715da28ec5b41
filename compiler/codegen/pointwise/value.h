// Spells the value of a pointwise launch as a device function over coordinates.
#pragma once

#include <string>
#include <vector>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// `static void value(p, [groups,] a0, [g0,] a1, …, [lanes,] v)`: the place along each axis of the launch (and its
// group, where rows lie in groups); `lanes`, where the lane axis lies in groups, says how many of the `width` elements
// exist: the others repeat the last.
std::string spell_pointwise_value(const ir::Graph& graph, const lowering::PointwiseLaunch& launch,
                                  const std::string& suffix);

// Whether the value has the parameter `lanes`.
bool counts_lanes(const lowering::PointwiseLaunch& launch);

// Where the element with these coordinates lies: its buffer, and its index in it.
struct SpelledPlace {
  std::string base, index;
};
// `name` is "in_x" or "out"; the last axis is contiguous, pointer axes select the buffer.
SpelledPlace spell_place(const ir::Tensor& tensor, const std::string& name,
                         const std::vector<std::string>& coordinates);

}  // namespace epifuse::codegen
