// A buffer in a few numbers, for a table and for JSON.
#pragma once

#include <string>

#include "compiler/interpreter/host_tensor.h"

namespace epifuse::tools {

struct Summary {
  int64_t elements = 0, nans = 0;
  double least = 0, most = 0, mean = 0;  // of what is no NaN; all 0 when nothing is
  std::string digest;                    // of the bytes
};

Summary summarize(const interpreter::HostTensor& tensor, int threads);

}  // namespace epifuse::tools
