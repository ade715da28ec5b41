// The GPU that run and verify use.
#pragma once

#include "base/result.h"
#include "base/target.h"
#include "runtime/device.h"

namespace epifuse::tools {

struct Gpu {
  runtime::DevicePtr device;
  Target target;
};

// The first GPU that Epifuse has kernels for. The error (environment) says why there is none.
Result<Gpu> find_gpu();

}  // namespace epifuse::tools
