#include "tools/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/digest.h"
#include "compiler/interpreter/parallel.h"

namespace epifuse::tools {
namespace {

struct Part {
  int64_t nans = 0, infinities = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity(), sum = 0;
};

Part summarize_part(const interpreter::HostTensor& tensor, int64_t first, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  interpreter::load(tensor, first, 1, count, values.data());
  Part part;
  for (const double value : values) {
    if (std::isnan(value)) {
      ++part.nans;
      continue;
    }
    part.infinities += std::isinf(value);
    part.least = std::min(part.least, value);
    part.most = std::max(part.most, value);
    part.sum += value;
  }
  return part;
}

}  // namespace

Summary summarize(const interpreter::HostTensor& tensor, int threads) {
  constexpr int64_t chunk = 1 << 16;
  Summary summary;
  summary.elements = tensor.elements();
  std::vector<Part> parts(static_cast<size_t>((summary.elements + chunk - 1) / chunk));
  interpreter::parallel_for(static_cast<int64_t>(parts.size()), threads, [&](int64_t task) {
    const int64_t first = task * chunk;
    parts[static_cast<size_t>(task)] = summarize_part(tensor, first, std::min(chunk, summary.elements - first));
  });
  Part all;
  for (const Part& part : parts) {  // in order, so that the mean does not depend on the threads
    all.nans += part.nans;
    all.infinities += part.infinities;
    all.least = std::min(all.least, part.least);
    all.most = std::max(all.most, part.most);
    all.sum += part.sum;
  }
  summary.nans = all.nans;
  summary.infinities = all.infinities;
  if (const int64_t numbers = summary.elements - all.nans; numbers > 0)
    summary.range = Summary::Range{all.least, all.most, all.sum / static_cast<double>(numbers)};
  summary.digest = digest({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()}).hex();
  return summary;
}

}  // namespace epifuse::tools
