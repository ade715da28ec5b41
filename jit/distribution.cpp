#include "jit/distribution.h"

#include <algorithm>
#include <cmath>

namespace epifuse::jit {

Distribution distribution(std::vector<double> values) {
  Distribution made;
  made.count = static_cast<int>(values.size());
  if (values.empty()) return made;
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  made.median = quantile(0.5);
  made.low = quantile(0.25);
  made.high = quantile(0.75);
  made.least = values.front();
  made.most = values.back();
  return made;
}

}  // namespace epifuse::jit
