// Host checks of group sizes: ends and counts, packed and aligned.
#include "runtime/group_sizes.h"

#include <vector>

#include "tests/support/catch.h"

using namespace epifuse;
using runtime::check_group_sizes;

namespace {

std::string complaint(const std::string& name, std::vector<int64_t> values, int64_t capacity, int64_t align = 1,
                      int64_t slot = 0) {
  const RecipeTensor sizes{name, Storage::i32, TensorRole::group_sizes, {4}, false, 4, "", align};
  const Status s = check_group_sizes(sizes, values, capacity, slot);
  return s ? "" : s.error().message;
}

}  // namespace

TEST_CASE("ends rise and stay within the capacity") {
  CHECK(complaint("M.ends", {0, 1, 128, 128, 1000}, 1000).empty());
  CHECK(complaint("M.ends", {0, 0, 0}, 0).empty());
  CHECK(complaint("M.ends", {}, 0).empty());
  CHECK(complaint("M.ends", {5, 4}, 10) == "M.ends: group 1 ends at row 4, before its start at row 5");
  CHECK(complaint("M.ends", {-1}, 10) == "M.ends: group 0 ends at row -1, before its start at row 0");
  CHECK(complaint("M.ends", {5, 11}, 10) == "M.ends: group 1 has 6 rows from row 5 on, past the capacity of 10 rows");
}

TEST_CASE("counts add up to the capacity at most") {
  CHECK(complaint("M.counts", {3, 0, 7}, 10).empty());
  CHECK(complaint("M.counts", {3, -1}, 10) == "M.counts: group 1 has -1 rows from row 3 on");
  CHECK(complaint("M.counts", {3, 8}, 10) ==
        "M.counts: group 1 has 8 rows from row 3 on, past the capacity of 10 rows");
  CHECK(complaint("M.counts", {3, INT64_MAX}, 10) != "");
}

TEST_CASE("aligned groups start on their multiple") {
  CHECK(complaint("M.ends", {100, 228, 256 + 7}, 300, 128).empty());
  CHECK(complaint("M.ends", {100, 120}, 300, 128) == "M.ends: group 1 ends at row 120, before its start at row 128");
  CHECK(complaint("M.counts", {100, 100}, 228, 128).empty());
  CHECK(complaint("M.counts", {100, 101}, 228, 128) != "");
  CHECK(complaint("M.counts", {100, 0}, 100, 128).empty());
  CHECK(complaint("M.ends", {40, 105}, 104, 48) ==
        "M.ends: group 1 has 57 rows from row 48 on, past the capacity of 104 rows");
  CHECK(complaint("M.ends", {40, 48 + 9}, 57, 48).empty());
  // A group without rows says where the one before it ends, or where it starts itself.
  CHECK(complaint("M.ends", {100, 100, 100, 130}, 130, 128).empty());
  CHECK(complaint("M.ends", {100, 128, 130}, 130, 128).empty());
}

TEST_CASE("groups in slots start where their slot does, and have no more rows than it") {
  CHECK(complaint("M.counts", {64, 0, 3}, 192, 1, 64).empty());
  CHECK(complaint("M.counts", {64, 0, 3}, 131, 1, 64).empty());
  CHECK(complaint("M.ends", {64, 64, 131}, 192, 1, 64).empty());
  CHECK(complaint("M.ends", {0, 0, 0}, 192, 1, 64).empty());
  CHECK(complaint("M.ends", {5, 5, 128}, 192, 1, 64).empty());
  CHECK(complaint("M.counts", {64, 65}, 192, 1, 64) ==
        "M.counts: group 1 has 65 rows, and its slot from row 64 on has 64");
  CHECK(complaint("M.ends", {5, 10}, 192, 1, 64) == "M.ends: group 1 ends at row 10, before its start at row 64");
  CHECK(complaint("M.ends", {5, 129}, 192, 1, 64) == "M.ends: group 1 has 65 rows, and its slot from row 64 on has 64");
  CHECK(complaint("M.counts", {1, 1, 60}, 180, 1, 64) ==
        "M.counts: group 2 has 60 rows from row 128 on, past the capacity of 180 rows");
  CHECK(complaint("M.counts", {0, 1, 0}, 180, 1, INT64_MAX / 2 + 1) != "");
}
