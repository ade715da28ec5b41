// Host checks of group sizes: ends and counts, packed and aligned.
#include "runtime/group_sizes.h"

#include <vector>

#include "tests/support/catch.h"

using namespace epifuse;
using runtime::check_group_sizes;

namespace {

std::string complaint(const std::string& name, std::vector<int64_t> values, int64_t capacity, int64_t align = 1) {
  const RecipeTensor sizes{name, Storage::i32, TensorRole::group_sizes, {4}, false, 4, "", align};
  const Status s = check_group_sizes(sizes, values, capacity);
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
}
