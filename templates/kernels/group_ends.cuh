// Where each group ends, its gap included: the launch for an output like `ends : i32[E] = P.ends`. One warp; groups of
// any number.
//
// Plan        what pipeline/group_search.cuh names. Place 0 is the grouped dimension, `place` the one whose ends are
//             stored
// Parameters  group_sizes, groups, capacity, slot (groups in slots), out
#pragma once

#include "pipeline/group_search.cuh"
#include "ptx/launch.cuh"

namespace epifuse {

constexpr int group_ends_threads = 32;

// Integer: int or i64.
template <class Plan, class Integer, int place, class Parameters>
EPIFUSE_DEVICE void store_group_ends(const Parameters& p) {
  ptx::wait_for_launches_before();
  Integer* out = static_cast<Integer*>(p.out);
  GroupPlace<Plan::places> none;
  const auto store = [&](const GroupPlace<Plan::places>& at) {
    const int end = at.start[place] + round_up(at.rows, Plan::alignment(place));
    // The gap of the dimension itself ends with the buffer at the latest.
    out[at.group] = place == 0 ? min(end, p.capacity) : end;
    return false;  // go on
  };
  find_group<Plan>(p, store, none);
}

}  // namespace epifuse
