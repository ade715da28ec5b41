// How many rows each group has. Sizes are read on the device, so nothing on the host depends on them.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

//   one      a single group of all rows
//   uniform  batches of the same number of rows
//   ends, counts  what the caller's group_sizes hold, of groups one behind the other
//   slot_ends, slot_counts  the same of groups that have a slot of rows each
enum class Groups { one, uniform, ends, counts, slot_ends, slot_counts };

EPIFUSE_DEVICE constexpr bool says_ends(Groups groups) { return groups == Groups::ends || groups == Groups::slot_ends; }
EPIFUSE_DEVICE constexpr bool in_slots(Groups groups) {
  return groups == Groups::slot_ends || groups == Groups::slot_counts;
}

EPIFUSE_DEVICE int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Rows of a group that starts at row `start`. Sizes that do not fit the capacity are cut, so that nothing past it is
// touched; one that no int can hold is cut before it is taken for one.
// Plan: groups (Groups), wide_sizes. Parameters: group_sizes, capacity, for uniform groups batch_rows, and slot for
// those in slots.
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
    if (says_ends(Plan::groups)) size -= start;
    if constexpr (in_slots(Plan::groups)) size = min(size, p.slot);
    return max(0, min(size, p.capacity - start));
  }
}

// Where a group in slots starts. A capacity of fewer slots cuts those behind it.
template <class Parameters>
EPIFUSE_DEVICE int slot_start(const Parameters& p, int group) {
  return static_cast<int>(min(i64{group} * p.slot, i64{p.capacity}));
}

}  // namespace epifuse
