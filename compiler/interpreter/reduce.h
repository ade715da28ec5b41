// Sums and largest magnitudes of a value over the names that an output does not keep.
#pragma once

#include <vector>

#include "base/result.h"
#include "compiler/interpreter/evaluator.h"

namespace epifuse::interpreter {

// Over the output's shape, row-major; an aligned dimension as the one it aligns. Places outside the groups hold
// nothing.
struct Reduced {
  std::vector<int64_t> strides;
  std::vector<double> value;
  // Empty without bounds. `slack`: how far a good f32 sum is from `value` at most, see Tile::slack.
  std::vector<double> low, high, slack;
};

Result<Reduced> reduce(const Problem& problem, const GemmResults& gemms, const ir::Output& output, bool bounds,
                       int threads);

}  // namespace epifuse::interpreter
