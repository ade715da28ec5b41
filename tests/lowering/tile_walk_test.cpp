// The walks over output tiles (templates/pipeline, compiled for the host) against groups laid out by hand.
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "tests/lowering/host/tiles.cuh"
#include "tests/support/catch.h"

using namespace epifuse;

namespace {

template <Groups form, bool wide, int align_0, int align_1, bool local_1 = false, bool in_pairs = false>
struct WalkPlan {
  static constexpr bool pairs = in_pairs;
  static constexpr Groups groups = form;
  static constexpr bool wide_sizes = wide;
  static constexpr int places = 2;
  static constexpr int alignment(int place) { return place == 0 ? align_0 : align_1; }
  static constexpr bool local(int place) { return place == 1 && local_1; }
};

struct WalkParameters {
  const void* group_sizes;
  int groups, capacity, column_tiles, band;
  int batch_rows = 0;
  int slot = 0;
};

struct Layout {
  std::vector<int64_t> counts;  // rows of each group that exist
  std::vector<int64_t> start[2];
  std::vector<int64_t> stored[2];  // rows with the gap
};

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// `sizes` as the caller gives them: where groups end, or how many rows they have; all of them fit unless `cut`.
template <class Plan>
Layout lay_out(const std::vector<int64_t>& sizes, int64_t capacity, int64_t slot) {
  Layout layout;
  int64_t start[2] = {0, 0};
  for (const int64_t size : sizes) {
    if (in_slots(Plan::groups)) start[0] = std::min(static_cast<int64_t>(layout.counts.size()) * slot, capacity);
    int64_t wanted = says_ends(Plan::groups) ? size - start[0] : size;
    if (in_slots(Plan::groups)) wanted = std::min(wanted, slot);
    const int64_t rows = std::max<int64_t>(0, std::min(wanted, capacity - start[0]));
    layout.counts.push_back(rows);
    for (int place = 0; place < 2; ++place) {
      layout.start[place].push_back(start[place]);
      layout.stored[place].push_back(up(rows, Plan::alignment(place)));
      start[place] += up(rows, Plan::alignment(place));
    }
    if (rows > 0 && Plan::alignment(0) > 1 && layout.start[0].back() + layout.stored[0].back() > capacity)
      layout.stored[0].back() = capacity - layout.start[0].back();
  }
  return layout;
}

template <class Plan>
void check(const std::vector<int64_t>& sizes, int capacity, int column_tiles, int band, int slot = 0) {
  std::vector<int> narrow(sizes.begin(), sizes.end());
  std::vector<i64> wide(sizes.begin(), sizes.end());
  const WalkParameters p{Plan::wide_sizes ? static_cast<const void*>(wide.data()) : narrow.data(),
                         static_cast<int>(sizes.size()),
                         capacity,
                         column_tiles,
                         band,
                         static_cast<int>(sizes.empty() ? 0 : sizes[0]),
                         slot};
  const Layout layout =
      lay_out<Plan>(Plan::groups == Groups::one ? std::vector<int64_t>{capacity} : sizes, capacity, slot);

  // Rows of every place, each as often as there are column tiles.
  std::set<std::tuple<int, int64_t, int>> seen;  // group, row in the group, column tile
  std::map<std::pair<int, int64_t>, int> covered[2];
  TileWalk<Plan, WalkParameters> walk(p);
  Tile<2> tile;
  int count = 0;
  for (; walk.seek(count, tile); ++count) {
    REQUIRE(tile.group >= 0);
    REQUIRE(tile.group < static_cast<int>(layout.counts.size()));
    const size_t group = static_cast<size_t>(tile.group);
    const int64_t row = tile.rows[0].first - layout.start[0][group];
    REQUIRE(row >= 0);
    REQUIRE(row % tile_rows == 0);
    REQUIRE(tile.column_tile >= 0);
    REQUIRE(tile.column_tile < column_tiles);
    REQUIRE(seen.insert({tile.group, row, tile.column_tile}).second);
    REQUIRE(tile.first_row == row);
    REQUIRE(tile.valid_rows == layout.counts[group] - row);
    for (int place = 0; place < 2; ++place) {
      REQUIRE(tile.rows[place].first == (Plan::local(place) ? 0 : layout.start[place][group]) + row);
      REQUIRE(tile.rows[place].limit == layout.stored[place][group] - row);
      for (int64_t i = 0; i < std::min<int64_t>(tile.rows[place].limit, tile_rows); ++i)
        ++covered[place][{tile.group, row + i}];
    }
  }
  REQUIRE(walk.total() == count);
  Tile<2> none;
  REQUIRE(!walk.seek(count + 5, none));
  REQUIRE(walk.total() == count);
  for (int place = 0; place < 2; ++place) {
    int64_t rows = 0;
    for (const int64_t stored : layout.stored[place]) rows += stored;
    REQUIRE(static_cast<int64_t>(covered[place].size()) == rows);
    for (const auto& [where, times] : covered[place]) REQUIRE(times == column_tiles);
  }
  // A walk that looks at every third tile only finds the same tiles.
  TileWalk<Plan, WalkParameters> sparse(p), full(p);
  Tile<2> one{}, other{};
  for (int index = 1; index < count; index += 3) {
    REQUIRE(sparse.seek(index, one));
    REQUIRE(full.seek(index, other));
    REQUIRE(
        (one.group == other.group && one.column_tile == other.column_tile && one.rows[0].first == other.rows[0].first));
  }
}

template <Groups form, bool wide, int align_0, int align_1>
void check_random(uint32_t seed) {
  using Plan = WalkPlan<form, wide, align_0, align_1>;
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> sizes;
    int64_t start = 0, end = 0;
    const int groups = 1 + static_cast<int>(random() % 12);
    for (int group = 0; group < groups; ++group) {
      constexpr std::array<int64_t, 6> special{0, 0, 1, 127, 128, 129};
      const int64_t rows = random() % 2 ? special[random() % special.size()] : random() % 500;
      start = up(end, align_0);
      end = start + rows;
      sizes.push_back(form == Groups::ends ? end : rows);
    }
    // Exact, with room behind, or too small: then the last groups are cut.
    const int64_t slack = random() % 3 == 0 ? -static_cast<int64_t>(random() % 200) : random() % 2 ? 0 : random() % 300;
    const int capacity = static_cast<int>(std::max<int64_t>(1, end + slack));
    INFO("seed " << seed << " round " << round << " capacity " << capacity);
    check<Plan>(sizes, capacity, 1 + static_cast<int>(random() % 20), 1 + static_cast<int>(random() % 9));
  }
}

// Two CTAs of a pair have at the same index neighbouring row tiles of the same columns, and all tiles between them.
template <Groups form>
void check_pairs(const std::vector<int64_t>& sizes, int column_tiles, int band) {
  using Single = WalkPlan<form, true, 1, 128>;
  using Paired = WalkPlan<form, true, 1, 128, false, true>;
  const auto capacity = static_cast<int>(std::max<int64_t>(1, std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  const WalkParameters p{sizes.data(), static_cast<int>(sizes.size()), capacity, column_tiles, band};
  using Name = std::tuple<int, int, int, int, int>;
  const auto name_of = [](const Tile<2>& tile) {
    return Name(tile.group, tile.row_tile, tile.column_tile, tile.rows[1].first, tile.valid_rows);
  };
  std::set<Name> expected, found;
  Tile<2> tile;
  TileWalk<Single, WalkParameters> single(p);
  for (int index = 0; single.seek(index, tile); ++index) {
    REQUIRE((tile.exists && !tile.alone));
    expected.insert(name_of(tile));
  }
  TileWalk<Paired, WalkParameters> walks[2] = {TileWalk<Paired, WalkParameters>(p),
                                               TileWalk<Paired, WalkParameters>(p)};
  int count = 0;
  for (bool more = true; more; ++count) {
    Tile<2> tiles[2];
    bool has[2];
    for (u32 rank = 0; rank < 2; ++rank) {
      ptx::rank_in_cluster = rank;
      has[rank] = walks[rank].seek(count, tiles[rank]);
    }
    ptx::rank_in_cluster = 0;
    REQUIRE(has[0] == has[1]);
    more = has[0];
    if (!more) break;
    REQUIRE(tiles[0].exists);
    REQUIRE(tiles[0].alone == !tiles[1].exists);
    REQUIRE(tiles[0].column_tile == tiles[1].column_tile);
    REQUIRE(tiles[0].group == tiles[1].group);
    REQUIRE(tiles[1].first_row == tiles[0].first_row + tile_rows);
    for (const Tile<2>& one : tiles)
      if (one.exists) REQUIRE(found.insert(name_of(one)).second);
  }
  REQUIRE(found == expected);
  REQUIRE(walks[0].total() == count);
  REQUIRE(walks[1].total() == count);
}

}  // namespace

TEST_CASE("pairs have every tile once; groups of odd row tiles leave the second without one") {
  check_pairs<Groups::counts>({0, 1, 128, 129, 256, 257, 0, 1000, 31}, 3, 2);
  check_pairs<Groups::counts>({0, 0}, 3, 2);
  check_pairs<Groups::counts>(std::vector<int64_t>(200, 130), 1, 8);
  std::mt19937 random(61);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> sizes(1 + random() % 12);
    for (int64_t& size : sizes) size = random() % 3 == 0 ? 0 : random() % 900;
    check_pairs<Groups::counts>(sizes, 1 + static_cast<int>(random() % 20), 1 + static_cast<int>(random() % 9));
  }
}

TEST_CASE("every tile of every group comes exactly once, wherever the groups lie") {
  check_random<Groups::ends, false, 1, 128>(1);
  check_random<Groups::ends, true, 1, 32>(2);
  check_random<Groups::counts, false, 1, 128>(3);
  check_random<Groups::counts, true, 1, 256>(4);
  check_random<Groups::one, false, 1, 1>(5);
}

TEST_CASE("groups of an aligned dimension start where the alignment says") {
  check_random<Groups::ends, false, 128, 128>(11);
  check_random<Groups::counts, true, 32, 256>(12);
  check_random<Groups::ends, true, 8, 64>(13);
  check_random<Groups::counts, false, 96, 96>(14);
}

namespace {

// Sizes of groups in slots, as the caller gives them. An empty group may say that it ends where the one before it does.
std::vector<int64_t> slot_sizes(std::mt19937& random, bool ends, int groups, int slot) {
  std::vector<int64_t> sizes;
  int64_t end = 0;
  for (int group = 0; group < groups; ++group) {
    const int64_t full = random() % 4, rows = full == 0 ? 0 : full == 1 ? slot : random() % (slot + 1);
    const int64_t start = int64_t{group} * slot;
    end = rows == 0 && random() % 2 ? end : start + rows;
    sizes.push_back(ends ? end : rows);
  }
  return sizes;
}

template <Groups form, bool wide, int aligned>
void check_slots(uint32_t seed) {
  using Plan = WalkPlan<form, wide, 1, aligned>;
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const int groups = round == 0 ? 300 : 1 + static_cast<int>(random() % 12);
    const int slot = round == 1 ? 0 : round % 2 ? 128 : 1 + static_cast<int>(random() % 400);
    const std::vector<int64_t> sizes = slot_sizes(random, says_ends(form), groups, slot);
    // Whole slots, with room behind, or too few: then the last groups are cut, or lie behind everything.
    const int slack = random() % 3 == 0 ? -static_cast<int>(random() % 500) : static_cast<int>(random() % 50);
    INFO("seed " << seed << " round " << round << " slot " << slot);
    check<Plan>(sizes, std::max(1, groups * slot + slack), 1 + static_cast<int>(random() % 5),
                1 + static_cast<int>(random() % 9), slot);
  }
}

}  // namespace

TEST_CASE("groups in slots start where their slot does, and their aligned form follows the rows alone") {
  check_slots<Groups::slot_counts, false, 128>(41);
  check_slots<Groups::slot_counts, true, 48>(42);
  check_slots<Groups::slot_ends, false, 96>(43);
  check_slots<Groups::slot_ends, true, 128>(44);
}

TEST_CASE("sizes that no slot can hold are cut") {
  check<WalkPlan<Groups::slot_counts, false, 1, 128>>({100, 400, -5, 129}, 512, 3, 2, 128);
  check<WalkPlan<Groups::slot_ends, false, 1, 128>>({100, 50, 1000, 300}, 512, 3, 2, 128);
  check<WalkPlan<Groups::slot_counts, true, 1, 128>>({int64_t{1} << 40, -(int64_t{1} << 40), 7}, 384, 3, 2, 128);
  // Slots past what an int can count.
  check<WalkPlan<Groups::slot_counts, false, 1, 128>>({5, 5, 5, 5, 5}, 1000, 1, 1, 1 << 30);
}

TEST_CASE("alignments that are no power of two, with one group and with 300") {
  check_random<Groups::ends, false, 48, 96>(51);
  check_random<Groups::counts, true, 96, 48>(52);
  for (const int64_t rows : {0, 1, 47, 48, 49, 300}) {
    check<WalkPlan<Groups::counts, false, 48, 96>>({rows}, static_cast<int>(up(rows, 48)) + 1, 2, 2);
    check<WalkPlan<Groups::counts, true, 1, 48>>(std::vector<int64_t>(300, rows), static_cast<int>(300 * rows) + 1, 1,
                                                 2);
  }
}

TEST_CASE("batches have rows alike; a place may count from each batch's start") {
  for (const int64_t rows : {1, 127, 128, 129, 300})
    for (const size_t batches : {1, 2, 7}) {
      INFO(rows << " " << batches);
      const auto capacity = static_cast<int>(rows * static_cast<int64_t>(batches));
      check<WalkPlan<Groups::uniform, false, 1, 1>>(std::vector<int64_t>(batches, rows), capacity, 3, 2);
      check<WalkPlan<Groups::uniform, false, 1, 1, true>>(std::vector<int64_t>(batches, rows), capacity, 5, 8);
    }
  check<WalkPlan<Groups::uniform, false, 1, 1>>({0, 0}, 0, 4, 8);
}

TEST_CASE("no rows, no tiles") {
  check<WalkPlan<Groups::ends, false, 1, 128>>({0, 0, 0}, 64, 4, 8);
  check<WalkPlan<Groups::counts, true, 1, 128>>({0}, 1, 4, 8);
  check<WalkPlan<Groups::one, false, 1, 1>>({0}, 0, 4, 8);
}

TEST_CASE("sizes that no capacity can hold are cut, also those that are no int") {
  check<WalkPlan<Groups::ends, false, 1, 128>>({100, 50, 400, 300}, 300, 3, 2);  // falling and too large
  check<WalkPlan<Groups::counts, false, 1, 128>>({100, -5, 400, 300}, 300, 3, 2);
  check<WalkPlan<Groups::counts, true, 1, 128>>({100, int64_t{1} << 40, -(int64_t{1} << 40), 7}, 300, 3, 2);
  check<WalkPlan<Groups::ends, true, 1, 128>>({100, (int64_t{1} << 32) + 120, 130}, 300, 3, 2);
}

namespace {

template <Groups form, bool wide, int alignment_, bool skips>
struct DepthPlan {
  static constexpr Groups groups = form;
  static constexpr bool wide_sizes = wide, skips_empty = skips;
  static constexpr int depth_alignment = alignment_, places = 2;
  static constexpr int alignment(int place) { return place == 0 ? 1 : 32; }  // of results' rows
  static constexpr bool local(int place) { return place == 1; }
};

struct DepthParameters {
  const void* group_sizes;
  int groups, capacity, column_tiles, band, batch_rows, rows, row_tiles, slot;
};

// Every tile of every result once, the rows and the contracted stretch with it.
template <class Plan>
void check_depths(const std::vector<int64_t>& sizes, int capacity, int rows, int column_tiles, int band, int slot = 0) {
  std::vector<int> narrow(sizes.begin(), sizes.end());
  std::vector<i64> wide(sizes.begin(), sizes.end());
  const DepthParameters p{Plan::wide_sizes ? static_cast<const void*>(wide.data()) : narrow.data(),
                          static_cast<int>(sizes.size()),
                          capacity,
                          column_tiles,
                          band,
                          static_cast<int>(sizes[0]),
                          rows,
                          static_cast<int>(up(rows, tile_rows) / tile_rows),
                          slot};
  std::vector<int64_t> first, depth;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (in_slots(Plan::groups)) start = std::min(static_cast<int64_t>(first.size()) * slot, int64_t{capacity});
    int64_t wanted = says_ends(Plan::groups) ? size - start : size;
    if (in_slots(Plan::groups)) wanted = std::min(wanted, int64_t{slot});
    first.push_back(start);
    depth.push_back(Plan::groups == Groups::uniform ? wanted
                                                    : std::max<int64_t>(0, std::min(wanted, capacity - start)));
    start += up(depth.back(), Plan::depth_alignment);
  }
  std::set<std::tuple<int, int, int>> seen;
  DepthWalk<Plan, DepthParameters> walk(p);
  Tile<2> tile;
  int count = 0;
  for (; walk.seek(count, tile); ++count) {
    const auto group = static_cast<size_t>(tile.group);
    REQUIRE(group < sizes.size());
    REQUIRE(tile.first_row % tile_rows == 0);
    REQUIRE(tile.first_row < rows);
    REQUIRE(tile.column_tile >= 0);
    REQUIRE(tile.column_tile < column_tiles);
    REQUIRE(seen.insert({tile.group, tile.first_row, tile.column_tile}).second);
    REQUIRE(tile.depth == depth[group]);
    REQUIRE((tile.depth > 0 || !Plan::skips_empty));
    if (tile.depth > 0) REQUIRE(tile.depth_first == first[group]);
    REQUIRE(tile.valid_rows == rows - tile.first_row);
    REQUIRE(tile.row_tile == tile.group * p.row_tiles + tile.first_row / tile_rows);
    REQUIRE(tile.rows[0].first == tile.group * rows + tile.first_row);
    REQUIRE(tile.rows[1].first == tile.first_row);
    for (int place = 0; place < 2; ++place)
      REQUIRE(tile.rows[place].limit == up(rows, Plan::alignment(place)) - tile.first_row);
  }
  const auto results = Plan::skips_empty
                           ? std::count_if(depth.begin(), depth.end(), [](int64_t size) { return size > 0; })
                           : static_cast<std::ptrdiff_t>(depth.size());
  REQUIRE(count == results * p.row_tiles * column_tiles);
  REQUIRE(walk.total() == count);
  Tile<2> none;
  REQUIRE(!walk.seek(count + 3, none));
  REQUIRE(walk.total() == count);
  // A walk in steps finds the same tiles.
  DepthWalk<Plan, DepthParameters> sparse(p), full(p);
  Tile<2> one{}, other{};
  for (int index = 2; index < count; index += 5) {
    REQUIRE(sparse.seek(index, one));
    for (int next = index - 4; next <= index; ++next) REQUIRE(full.seek(std::max(next, 0), other));
    REQUIRE((one.group == other.group && one.first_row == other.first_row && one.column_tile == other.column_tile));
  }
}

template <Groups form, bool wide, int alignment, bool skips>
void check_random_depths(uint32_t seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> sizes;
    int64_t end = 0;
    const int groups = 1 + static_cast<int>(random() % 10);
    for (int group = 0; group < groups; ++group) {
      const int64_t depth = random() % 3 == 0 ? 0 : random() % 300;
      end = up(end, alignment) + depth;
      sizes.push_back(form == Groups::ends ? end : depth);
    }
    const int64_t slack = random() % 3 == 0 ? -static_cast<int64_t>(random() % 100) : random() % 50;
    INFO("seed " << seed << " round " << round);
    check_depths<DepthPlan<form, wide, alignment, skips>>(
        sizes, static_cast<int>(std::max<int64_t>(1, end + slack)), 1 + static_cast<int>(random() % 400),
        1 + static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 9));
  }
}

}  // namespace

TEST_CASE("a result for each group, over the stretch that the group contracts") {
  check_random_depths<Groups::ends, false, 1, false>(21);
  check_random_depths<Groups::counts, true, 1, false>(22);
  check_random_depths<Groups::ends, true, 128, false>(23);
  check_depths<DepthPlan<Groups::uniform, false, 1, false>>({70, 70, 70}, 70, 200, 3, 2);
  check_depths<DepthPlan<Groups::uniform, false, 1, false>>({0, 0}, 0, 200, 3, 2);
}

TEST_CASE("a contraction in slots, and in groups aligned to what is no power of two") {
  check_random_depths<Groups::ends, false, 48, false>(24);
  check_random_depths<Groups::counts, true, 96, true>(25);
  std::mt19937 random(26);
  for (const int slot : {1, 64, 200}) {
    const std::vector<int64_t> counts = slot_sizes(random, false, 9, slot), ends = slot_sizes(random, true, 9, slot);
    for (const int capacity : {9 * slot, 9 * slot + 7, 5 * slot + 1}) {
      INFO(slot << " of " << capacity);
      check_depths<DepthPlan<Groups::slot_counts, false, 1, false>>(counts, capacity, 200, 3, 2, slot);
      check_depths<DepthPlan<Groups::slot_counts, true, 1, true>>(counts, capacity, 200, 3, 2, slot);
      check_depths<DepthPlan<Groups::slot_ends, true, 1, false>>(ends, capacity, 200, 3, 2, slot);
      check_depths<DepthPlan<Groups::slot_ends, false, 1, true>>(ends, capacity, 200, 3, 2, slot);
    }
  }
}

TEST_CASE("results that empty groups leave alone have no tiles") {
  check_random_depths<Groups::ends, false, 1, true>(31);
  check_random_depths<Groups::counts, false, 8, true>(32);
  check_depths<DepthPlan<Groups::counts, false, 1, true>>({0, 0, 0}, 5, 100, 2, 2);
  check_depths<DepthPlan<Groups::counts, false, 1, true>>({0, 0, 9}, 9, 100, 2, 2);
}
