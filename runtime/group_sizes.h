// Checks group sizes that live on the device, from a copy on the host. An option for debugging: it costs a
// synchronisation, so no launch does it.
#pragma once

#include <span>

#include "base/launch_recipe.h"

namespace epifuse::runtime {

// `sizes` is the recipe's tensor `M.ends` (where each group ends) or `M.counts` (rows of each group); group e starts at
// the end of the one before it, rounded up to sizes.group_align. Error (user): the first group that ends before it
// starts, has a negative count, or ends past `capacity` rows.
Status check_group_sizes(const RecipeTensor& sizes, std::span<const int64_t> values, int64_t capacity);

}  // namespace epifuse::runtime
