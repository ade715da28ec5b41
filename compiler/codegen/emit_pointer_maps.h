// The entry that makes tensor maps for operands of one buffer per group (compiler/lowering/pointer_maps.h).
#pragma once

#include <string>
#include <string_view>

#include "base/launch_recipe.h"

namespace epifuse::codegen {

inline constexpr std::string_view pointer_maps_header = "kernels/build_tensor_maps.cuh";

// The entry's parameter struct and the entry, for the step that lowering::add_pointer_maps made. The text around it
// includes pointer_maps_header and says `using namespace epifuse`.
std::string emit_pointer_maps(const RecipeStep& step);

}  // namespace epifuse::codegen
