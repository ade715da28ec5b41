// The pieces of pointwise kernels (templates/pointwise) on the host's block of threads: groups against groups laid out
// by hand, for sizes that fit and for sizes that no buffer can hold; sums; tiles of scales; rotations.
#include <limits>
#include <random>

#include "tests/codegen/host/pointwise.cuh"
#include "tests/support/catch.h"

using namespace epifuse::pointwise;

namespace {

struct Layout {
  std::vector<int> counts, starts, places;
};

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

template <class Size, bool are_counts>
Layout on_device(const std::vector<int64_t>& sizes, int capacity, int alignment, int place_alignment) {
  const std::vector<Size> given(sizes.begin(), sizes.end());
  const int groups = static_cast<int>(sizes.size());
  Layout layout;
  for (auto* list : {&layout.counts, &layout.starts, &layout.places}) list->assign(sizes.size(), -1);
  host::launch(1, 64, [&] {
    lay_out_groups<Size, are_counts>(given.data(), groups, capacity, alignment, layout.counts.data(),
                                     layout.starts.data());
    lay_out_place(layout.counts.data(), groups, place_alignment, layout.places.data());
    __syncthreads();
  });
  return layout;
}

template <class Size, bool are_counts>
void check_sound(uint32_t seed, int alignment, int place_alignment) {
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    const int groups = 1 + static_cast<int>(random() % 100);
    std::vector<int64_t> sizes;
    std::vector<int> counts, starts, places;
    int64_t end = 0, place = 0;
    for (int e = 0; e < groups; ++e) {
      const int rows = random() % 3 == 0 ? 0 : static_cast<int>(random() % 70);
      const int64_t start = up(end, alignment);
      // A group without rows may say that it ends where the one before it does.
      end = rows == 0 && !are_counts ? end : start + rows;
      sizes.push_back(are_counts ? rows : end);
      counts.push_back(rows);
      starts.push_back(static_cast<int>(start));
      places.push_back(static_cast<int>(place));
      place += up(rows, place_alignment);
    }
    const int capacity = static_cast<int>(up(end, alignment)) + static_cast<int>(random() % 20);
    const Layout layout = on_device<Size, are_counts>(sizes, capacity, alignment, place_alignment);
    INFO("seed " << seed << " round " << round);
    REQUIRE(layout.counts == counts);
    REQUIRE(layout.places == places);
    for (int e = 0; e < groups; ++e) {
      if (counts[e] == 0) continue;
      REQUIRE(layout.starts[e] == starts[e]);
      for (const int row : {0, counts[e] - 1}) {
        const Row here = row_at(layout.starts.data(), layout.counts.data(), groups, alignment, starts[e] + row);
        REQUIRE((here.group == e && here.row == row && here.count == counts[e] && !here.outside()));
        const Row there = row_at(layout.places.data(), layout.counts.data(), groups, place_alignment, places[e] + row);
        REQUIRE((there.group == e && there.row == row));
      }
      // Behind the last row lies the gap, and behind that the next group or nothing.
      const int64_t behind = places[e] + up(counts[e], place_alignment);
      for (int64_t at = places[e] + counts[e]; at < behind; ++at) {
        const Row gap =
            row_at(layout.places.data(), layout.counts.data(), groups, place_alignment, static_cast<int>(at));
        REQUIRE((gap.group == e && gap.row >= gap.count && !gap.outside()));
      }
    }
    const Row none =
        row_at(layout.places.data(), layout.counts.data(), groups, place_alignment, static_cast<int>(place));
    REQUIRE(none.outside());
  }
}

}  // namespace

TEST_CASE("groups lie where the sizes say, however many there are") {
  check_sound<int, false>(1, 1, 128);
  check_sound<epifuse::i64, false>(2, 1, 32);
  check_sound<int, true>(3, 1, 256);
  check_sound<epifuse::i64, true>(4, 8, 16);
  check_sound<int, false>(5, 16, 64);
}

TEST_CASE("sizes that no capacity can hold are cut, so that no row lies outside") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const int groups = 1 + static_cast<int>(random() % 70), capacity = static_cast<int>(random() % 300);
    std::vector<int64_t> sizes;
    for (int e = 0; e < groups; ++e) {
      const int64_t near = static_cast<int64_t>(random() % 800) - 200, far = static_cast<int64_t>(random());
      sizes.push_back(random() % 8 == 0 ? far : near);
    }
    const int alignment = round % 2 == 0 ? 1 : 32;
    for (const Layout& layout : {on_device<epifuse::i64, false>(sizes, capacity, alignment, 128),
                                 on_device<epifuse::i64, true>(sizes, capacity, alignment, 128)})
      for (int place = 0; place < capacity; ++place) {
        const Row row = row_at(layout.starts.data(), layout.counts.data(), groups, alignment, place);
        if (row.row >= row.count) continue;
        REQUIRE(row.row >= 0);
        REQUIRE(layout.starts[row.group] + row.row < capacity);
      }
  }
}

TEST_CASE("a sum's order is fixed, and of magnitudes NaN is the largest") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  // 2^24 takes no 1 in: that the ones survive shows that they are added to each other first.
  Sum sum;
  for (const float value : {16777216.f, 1.f, 1.f, 0.f, 0.f, 1.f, 1.f, 0.f}) sum.add(value);
  CHECK(sum.result() == 16777216.f + 4.f);

  Amax amax;
  CHECK(amax.result() == 0);
  for (const float value : {-3.f, 2.f}) amax.add(value);
  CHECK(amax.result() == 3);
  amax.add(-infinity);
  CHECK(amax.result() == infinity);
  amax.add(-nan);
  amax.add(1);
  CHECK(std::isnan(amax.result()));

  float total[32], largest[32];
  host::launch(1, 32, [&] {
    const auto lane = threadIdx.x;
    Sum terms;
    terms.add(static_cast<float>(lane));
    Amax magnitudes;
    magnitudes.add(lane == 9 ? -100.f : static_cast<float>(lane));
    total[lane] = terms.warp_result();
    largest[lane] = magnitudes.warp_result();
  });
  for (int lane = 0; lane < 32; ++lane) CHECK((total[lane] == 496 && largest[lane] == 100));
}
