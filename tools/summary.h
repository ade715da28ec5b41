// A buffer in a few numbers, for a table and for JSON.
#pragma once

#include <optional>
#include <string>

#include "compiler/interpreter/host_tensor.h"

namespace epifuse::tools {

struct Summary {
  struct Range {
    double least = 0, most = 0, mean = 0;  // the mean is NaN where infinities of both signs are
  };
  int64_t elements = 0, nans = 0, infinities = 0;
  std::optional<Range> range;  // of what is no NaN, infinities among it; nothing when all is
  std::string digest;          // of the bytes
};

Summary summarize(const interpreter::HostTensor& tensor, int threads);

}  // namespace epifuse::tools
