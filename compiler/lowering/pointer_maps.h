// Tensor maps for operands of one buffer per group (language.md N4, `bf16[E][N, K]`): a launch of its own makes a map
// for each buffer in the workspace (templates/kernels/build_tensor_maps.cuh), and the kernel reads them there.
//
// A kernel that uses such a map acquires it first (ptx::tensor_map_acquire), since another kernel wrote it.
#pragma once

#include <string_view>
#include <vector>

#include "base/launch_recipe.h"

namespace epifuse::lowering {

inline constexpr std::string_view pointer_maps_entry = "pointer_maps";

struct PointerMap {
  TensorMapRecipe map;       // over one buffer of a tensor with pointer axes
  IntExpr count;             // of buffers
  IntExpr workspace_offset;  // bytes, a multiple of tensor_map_bytes: `count` maps follow one another from there
};

// Puts the launch that makes the maps in front of the first launch of the recipe (behind the memsets before that one:
// none of them may clear the maps later); it is left out wherever that launch has nothing to do. The recipe's symbols
// and workspace_bytes stay as they are: they must cover what is added. Nothing is added for no maps.
void add_pointer_maps(LaunchRecipe& recipe, const std::vector<PointerMap>& maps);

// The step that add_pointer_maps put there; null: none.
const RecipeStep* find_pointer_maps(const LaunchRecipe& recipe);

}  // namespace epifuse::lowering
