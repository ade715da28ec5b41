// TMA descriptors: from a map of the recipe, with its sizes known, to the 128 bytes that the hardware reads.
#pragma once

#include "base/launch_recipe.h"
#include "runtime/compiled_recipe.h"
#include "runtime/driver_api.h"

namespace epifuse::runtime {

// Encodes map `index` over the tensor at `pointer` into `out`, which is aligned to 64 bytes. An extent below 1 is
// encoded as 1, and without a pointer (a tensor without memory, or the template for a map of each of its buffers) the
// map is at an address that is never read: nothing loads through it, but a kernel may prefetch the descriptor itself.
// The map's extents and strides are the recipe's, however large the tensor is. Errors name the tensor and all that was
// passed to the driver.
Status encode_tensor_map(const DriverApi& driver, const CompiledRecipe& recipe, size_t index,
                         cuda::DevicePointer pointer, IntProgram::Slots slots, void* out);

}  // namespace epifuse::runtime
