// The launch that stores where each group ends, against ends counted one by one.
#include "tests/reductions/reduction_support.h"
// Behind the words of CUDA.
#include "kernels/group_ends.cuh"

using namespace epifuse;
using namespace epifuse::test;

namespace {

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// `form` of groups with these rows, each from a multiple of align_0, or in slots; ends of the aligned form and of the
// dimension itself.
template <Groups form, int align_0, int aligned, class Size, class Integer>
void check(const std::vector<int>& counts, int slot = 0) {
  using Plan = RowsPlanOf<form, align_0, aligned, sizeof(Size) == 8>;
  const auto groups = static_cast<int>(counts.size());
  std::vector<Size> sizes;
  std::vector<Integer> of_itself, of_aligned;
  int64_t end = 0, aligned_end = 0;
  for (int g = 0; g < groups; ++g) {
    const int rows = counts[static_cast<size_t>(g)];
    const int64_t start = in_slots(form) ? int64_t{g} * slot : up(end, align_0);
    // A group without rows ends where the one before it does.
    if (rows > 0) end = start + rows;
    sizes.push_back(static_cast<Size>(says_ends(form) ? end : rows));
    of_itself.push_back(static_cast<Integer>(start + up(rows, align_0)));
    aligned_end += up(rows, aligned);
    of_aligned.push_back(static_cast<Integer>(aligned_end));
  }
  Numbers p;
  p.group_sizes = sizes.data(), p.groups = groups, p.slot = slot;
  p.capacity = static_cast<int>(in_slots(form) ? int64_t{groups} * slot : end);
  // The last gap ends with the buffer at the latest.
  for (Integer& value : of_itself) value = std::min(value, static_cast<Integer>(p.capacity));
  std::vector<Integer> got(counts.size() + 1, -7);
  p.out = got.data();
  launch(1, group_ends_threads, [&] { store_group_ends<Plan, Integer, 1>(p); });
  CHECK(got.back() == -7);
  got.pop_back();
  CHECK(got == of_aligned);
  p.out = got.data();
  launch(1, group_ends_threads, [&] { store_group_ends<Plan, Integer, 0>(p); });
  CHECK(got == of_itself);
}

}  // namespace

TEST_CASE("the ends of any number of groups are stored, gaps included") {
  std::mt19937 random(1);
  for (const int groups : {1, 2, 31, 32, 33, 300}) {
    std::vector<int> counts;
    for (int g = 0; g < groups; ++g)
      counts.push_back(g == 0 || g == groups - 1 || random() % 4 == 0 ? 0 : static_cast<int>(random() % 201));
    if (groups == 1) counts = {77};
    INFO(groups);
    check<Groups::ends, 1, 128, int, int>(counts);
    check<Groups::ends, 48, 96, i64, i64>(counts);
    check<Groups::counts, 128, 48, int, i64>(counts);
    check<Groups::counts, 1, 1, i64, int>(counts);
    check<Groups::slot_ends, 1, 128, int, int>(counts, 200);
    check<Groups::slot_counts, 1, 96, i64, i64>(counts, 200);
  }
}
