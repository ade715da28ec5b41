// Many measurements of one thing in a few numbers.
#pragma once

#include <vector>

namespace epifuse::jit {

struct Distribution {
  double median = 0;
  double least = 0, most = 0;
  double low = 0, high = 0;  // the quartiles: half of the measurements lie between them
  int count = 0;             // 0: there are none, and the numbers mean nothing

  // How far apart the quartiles are, relative to the median.
  double spread() const { return median == 0 ? 0 : (high - low) / median; }
};

// Quantiles are interpolated between neighbours.
Distribution distribution(std::vector<double> values);

}  // namespace epifuse::jit
