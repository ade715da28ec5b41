// A warp's search for groups against the walk that the GEMM itself takes.
#include <map>

#include "tests/reductions/reduction_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

template <class Plan, class Size>
void check(const std::vector<Size>& sizes, int capacity, int slot = 0) {
  Numbers p;
  p.group_sizes = sizes.data(), p.groups = static_cast<int>(sizes.size()), p.capacity = capacity, p.slot = slot;
  struct Seen {
    Tile<2> first{};
    int tiles = 0;
  };
  std::map<int, Seen> groups;
  std::vector<int> group_of_tile;
  TileWalk<Plan, Numbers> walk(p);
  Tile<2> tile{};
  for (int index = 0; walk.seek(index, tile); ++index) {
    Seen& seen = groups[tile.group];
    if (seen.tiles++ == 0) seen.first = tile;
    group_of_tile.push_back(tile.group);
  }
  std::vector<GroupPlace<2>> by_index(sizes.size()), by_tile(group_of_tile.size());
  std::vector<char> found(group_of_tile.size());
  bool past_the_last = true;
  REQUIRE(host::Cta::run(32, 0, [&] {
    for (size_t i = 0; i < sizes.size(); ++i) by_index[i] = find_group_by_index<Plan>(p, static_cast<int>(i));
    for (size_t t = 0; t < found.size(); ++t) found[t] = find_group_of_tile<Plan>(p, static_cast<int>(t), by_tile[t]);
    GroupPlace<2> none;
    past_the_last = find_group_of_tile<Plan>(p, static_cast<int>(found.size()), none);
  }));
  CHECK(!past_the_last);
  int before = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const GroupPlace<2>& at = by_index[i];
    REQUIRE(at.group == static_cast<int>(i));
    REQUIRE(at.tiles == groups[at.group].tiles);
    REQUIRE(at.first_tile == before);
    before += at.tiles;
    if (at.tiles == 0) {
      REQUIRE(at.rows == 0);
      continue;
    }
    REQUIRE(at.rows == groups[at.group].first.valid_rows);
    for (int place = 0; place < 2; ++place) REQUIRE(at.start[place] == groups[at.group].first.rows[place].first);
  }
  for (size_t t = 0; t < found.size(); ++t) {
    REQUIRE(found[t]);
    REQUIRE(by_tile[t].group == group_of_tile[t]);
    REQUIRE(by_tile[t].first_tile == by_index[static_cast<size_t>(group_of_tile[t])].first_tile);
  }
}

template <Groups form, int align_0, int aligned, class Size>
void check_random(uint32_t seed, bool fitting) {
  std::mt19937 random(seed);
  for (const int groups : {1, 31, 32, 33, 100}) {
    std::vector<Size> sizes;
    int64_t at = 0;
    for (int g = 0; g < groups; ++g) {
      const int64_t rows = random() % 3 ? random() % 300 : 0;
      // Sizes that fit nothing: falling ends, negative counts, and what no int holds.
      const int64_t faulty = static_cast<int64_t>(random() % 5000) - 500;
      if (form == Groups::ends)
        sizes.push_back(static_cast<Size>(fitting ? at + rows : faulty));
      else
        sizes.push_back(static_cast<Size>(fitting ? rows : faulty));
      at += round_up(static_cast<int>(rows), align_0);
    }
    if (!fitting && sizeof(Size) == 8) sizes.back() = static_cast<Size>(int64_t{1} << 40);
    INFO(groups);
    check<RowsPlanOf<form, align_0, aligned, sizeof(Size) == 8>>(sizes, fitting ? static_cast<int>(at) : 3000);
  }
}

}  // namespace

TEST_CASE("groups of any sizes are found where the walk finds them") {
  check_random<Groups::ends, 1, 128, int>(1, true);
  check_random<Groups::ends, 16, 256, int>(2, true);
  check_random<Groups::counts, 1, 32, i64>(3, true);
  check_random<Groups::counts, 64, 96, int>(4, true);
}

TEST_CASE("sizes that do not fit the capacity are cut as the walk cuts them") {
  check_random<Groups::ends, 1, 128, i64>(5, false);
  check_random<Groups::ends, 16, 256, int>(6, false);
  check_random<Groups::counts, 1, 32, int>(7, false);
  check_random<Groups::counts, 64, 96, i64>(8, false);
}

TEST_CASE("groups in slots are found where the walk finds them") {
  std::mt19937 random(9);
  for (const int groups : {1, 32, 33, 300})
    for (const bool fitting : {true, false}) {
      constexpr int slot = 200;
      std::vector<int> counts;
      std::vector<i64> ends;
      for (int g = 0; g < groups; ++g) {
        const int rows = random() % 3 ? static_cast<int>(random() % (fitting ? slot + 1 : 3 * slot)) : 0;
        counts.push_back(fitting || random() % 8 ? rows : -rows);
        ends.push_back(rows == 0 && g > 0 ? ends.back() : i64{g} * slot + rows);
      }
      INFO(groups << " " << fitting);
      const int capacity = groups * slot - (fitting ? 0 : 350);
      check<RowsPlanOf<Groups::slot_counts, 1, 128>>(counts, std::max(capacity, 1), slot);
      check<RowsPlanOf<Groups::slot_ends, 1, 48, true>>(ends, std::max(capacity, 1), slot);
    }
}

TEST_CASE("without groups there is one, or as many as there are batches") {
  check<RowsPlanOf<Groups::one, 1, 1>>(std::vector<int>(1), 300);
  check<RowsPlanOf<Groups::one, 1, 1>>(std::vector<int>(1), 0);
}
