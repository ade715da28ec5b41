// Checks group sizes that live on the device, from a copy on the host. An option for debugging: it costs a
// synchronisation, so no launch does it.
#pragma once

#include <span>

#include "base/launch_recipe.h"

namespace epifuse::runtime {

// `sizes` is the recipe's tensor `M.ends` (where each group ends) or `M.counts` (rows of each group); group e starts at
// the end of the one before it, rounded up to sizes.group_align, or, where `slot` is not 0, at row e * slot (`slot`:
// sizes.group_slot as a number). A group without rows may say that it ends where the one before it does. Error (user):
// the first group that ends before it starts, has a negative count, has more rows than a slot, or ends past `capacity`
// rows.
Status check_group_sizes(const RecipeTensor& sizes, std::span<const int64_t> values, int64_t capacity,
                         int64_t slot = 0);

}  // namespace epifuse::runtime
