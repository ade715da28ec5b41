// The scaled types that a pointwise launch can store: a further one is a row here and a device struct in
// templates/pointwise/formats.cuh.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/types.h"

namespace epifuse::lowering {

struct PointwiseFormat {
  int block = 32;         // elements of a block, along one axis
  std::string quantiser;  // the device struct
};

// Nothing for a type that is not lowered.
std::optional<PointwiseFormat> pointwise_format(const ir::TensorType& type);

}  // namespace epifuse::lowering
