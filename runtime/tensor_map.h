// TMA descriptors: from a map of the recipe, with its sizes known, to the 128 bytes that the hardware reads.
#pragma once

#include "base/launch_recipe.h"
#include "runtime/compiled_recipe.h"
#include "runtime/driver_api.h"

namespace epifuse::runtime {

// Encodes map `index` over the tensor at `pointer` into `out`, which is aligned to 64 bytes. An extent below 1 is
// encoded as 1, and a tensor without memory gets a map at an address that is never read: nothing loads through such a
// map, but a kernel may prefetch the descriptor itself. Errors name the tensor and all that was passed to the driver.
Status encode_tensor_map(const DriverApi& driver, const CompiledRecipe& recipe, size_t index,
                         cuda::DevicePointer pointer, IntProgram::Slots slots, void* out);

}  // namespace epifuse::runtime
