// How many rows each group has. Sizes are read on the device, so nothing on the host depends on them.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

//   one      a single group of all rows
//   uniform  batches of the same number of rows
//   ends, counts  what the caller's group_sizes hold
enum class Groups { one, uniform, ends, counts };

EPIFUSE_DEVICE int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Rows of a group that starts at row `start`. Sizes that do not fit the capacity are cut, so that nothing past it is
// touched; one that no int can hold is cut before it is taken for one.
// Plan: groups (Groups), wide_sizes. Parameters: group_sizes, capacity, and for uniform groups batch_rows.
template <class Plan, class Parameters>
EPIFUSE_DEVICE int group_rows(const Parameters& p, int group, int start) {
  if constexpr (Plan::groups == Groups::one) {
    return p.capacity;
  } else if constexpr (Plan::groups == Groups::uniform) {
    return p.batch_rows;
  } else {
    int size;
    if constexpr (Plan::wide_sizes)
      size = static_cast<int>(max(i64{0}, min(__ldg(static_cast<const i64*>(p.group_sizes) + group), i64{p.capacity})));
    else
      size = __ldg(static_cast<const int*>(p.group_sizes) + group);
    if (Plan::groups == Groups::ends) size -= start;
    return max(0, min(size, p.capacity - start));
  }
}

}  // namespace epifuse
