// What a launch recipe may hold, for those who read one and for those who say early that it would hold more.
#pragma once

#include <cstddef>
#include <string_view>

namespace epifuse {

// Far above what any kernel needs: they keep a hostile file from asking for absurd work.
namespace recipe_limits {
inline constexpr size_t most_entries = 1024;  // tensors, symbols, params, maps, steps
inline constexpr size_t longest_name = 256, most_axes = 8;
}  // namespace recipe_limits

// The symbol of the multiprocessors that a launch has. The other name that is taken is the workspace's
// (base/launch_recipe.h).
inline constexpr std::string_view multiprocessors_name = "sm_count";

}  // namespace epifuse
