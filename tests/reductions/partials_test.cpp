// sum and amax of a GEMM's result, from the thread's block to the output, with groups of all sorts of sizes: exact on
// small integers, whose sums no order can change, and the same bits under every tile width on any values.
#include "tests/reductions/reduction_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

using Ragged = RowsPlanOf<Groups::ends, 1, 128>;
using Gapped = RowsPlanOf<Groups::counts, 16, 256, true>;
using Dense = RowsPlanOf<Groups::one, 1, 1>;
using Batches = RowsPlanOf<Groups::uniform, 1, 1>;

struct Groups_ {
  std::vector<int> counts, start;  // of place 0
};

Matrix integers(int rows, int columns, int halves, uint32_t seed) {
  Matrix m{rows, columns, halves, std::vector<float>(static_cast<size_t>(rows * columns * halves))};
  std::mt19937 random(seed);
  for (float& v : m.v) v = static_cast<float>(static_cast<int>(random() % 201) - 100);
  return m;
}

float reduce(Reduction reduction, Matrix& m, int first_row, int rows, int first_half, int halves, int first_column,
             int columns) {
  float result = 0;
  for (int half = first_half; half < first_half + halves; ++half)
    for (int row = first_row; row < first_row + rows; ++row)
      for (int column = first_column; column < first_column + columns; ++column) {
        const float v = m.at(half, row, column);
        result = reduction == Reduction::sum ? result + v : std::max(result, std::fabs(v));
      }
  return result;
}

// Every kind of reduction of one problem against its definition. `expected_start[1]`: of place 1.
template <class Plan, Reduction reduction, RowOrder order, int part_tile, bool ragged>
void check(Numbers p, const std::vector<int>& counts, const std::vector<int>& start, int rows, int columns,
           int halves) {
  Matrix m = integers(rows, columns, halves, static_cast<uint32_t>(rows + columns));
  const int all_columns = columns * halves;
  const int row_tiles = ceil_div(p.capacity, 128) + 3 * p.groups;
  p.columns = all_columns;
  p.blocks = ceil_div(columns, 32);
  auto with = [&](Kind kind, std::vector<float>& partials, void* out) {
    partials = partials_of<Plan, reduction, order, part_tile, ragged>(kind, m, p);
    Numbers q = p;
    q.partials = partials.data();
    q.partial_pitch = pitch_of(kind, m, p.capacity);
    q.out = out;
    return q;
  };
  std::vector<float> partials;
  const float untouched = -12345;

  SECTION("rows, of the rows dimension and of an aligned place") {
    std::vector<float> plain(static_cast<size_t>(p.capacity), untouched), aligned(16384, untouched);
    const Numbers q = with(Kind::rows, partials, plain.data());
    launch(row_tiles, finish_rows_threads, [&] { finish_rows<Plan, void, f32, reduction, false, false, 0>(q); });
    Numbers to_aligned = q;
    to_aligned.out = aligned.data();
    launch(row_tiles, finish_rows_threads,
           [&] { finish_rows<Plan, void, f32, reduction, false, false, 1>(to_aligned); });
    std::vector<float> want_plain(plain.size(), untouched), want_aligned(aligned.size(), untouched);
    int at = 0;
    for (size_t g = 0; g < counts.size(); ++g) {
      const int stored[2] = {std::min(round_up(counts[g], Plan::alignment(0)), p.capacity - start[g]),
                             round_up(counts[g], Plan::alignment(1))};
      for (int row = 0; row < std::max(stored[0], stored[1]); ++row) {
        const float value = row < counts[g] ? reduce(reduction, m, start[g] + row, 1, 0, halves, 0, columns) : 0.f;
        if (row < stored[0]) want_plain[static_cast<size_t>(start[g] + row)] = value;
        if (row < stored[1]) want_aligned[static_cast<size_t>(at + row)] = value;
      }
      at += stored[1];
    }
    CHECK(plain == want_plain);
    CHECK(aligned == want_aligned);
  }
  SECTION("columns, of each group and of all rows") {
    std::vector<float> grouped(static_cast<size_t>(p.groups * all_columns), untouched),
        all(static_cast<size_t>(all_columns), untouched);
    Numbers q = with(Kind::columns, partials, grouped.data());
    launch(p.groups * ceil_div(all_columns, finished_columns(true)), finish_columns_threads,
           [&] { finish_columns<Plan, void, f32, reduction, false, false, true>(q); });
    q.out = all.data();
    launch(ceil_div(all_columns, finished_columns(false)), finish_columns_threads,
           [&] { finish_columns<Plan, void, f32, reduction, false, false, false>(q); });
    for (int half = 0; half < halves; ++half)
      for (int column = 0; column < columns; ++column) {
        float total = 0;
        for (size_t g = 0; g < counts.size(); ++g) {
          const float value = reduce(reduction, m, start[g], counts[g], half, 1, column, 1);
          total = reduction == Reduction::sum ? total + value : std::max(total, value);
          if (grouped[g * static_cast<size_t>(all_columns) + static_cast<size_t>(half * columns + column)] != value)
            FAIL("group " << g << " column " << column);
        }
        if (all[static_cast<size_t>(half * columns + column)] != total) FAIL("column " << column);
      }
  }
  SECTION("tiles, of each group and of all") {
    std::vector<float> grouped(static_cast<size_t>(p.groups), untouched);
    float all = untouched;
    Numbers q = with(Kind::tiles, partials, grouped.data());
    launch(p.groups, finish_tiles_threads, [&] { finish_tiles<Plan, void, f32, reduction, false, false, true>(q); });
    q.out = &all;
    launch(1, finish_tiles_threads, [&] { finish_tiles<Plan, void, f32, reduction, false, false, false>(q); });
    float total = 0;
    for (size_t g = 0; g < counts.size(); ++g) {
      const float value = reduce(reduction, m, start[g], counts[g], 0, halves, 0, columns);
      total = reduction == Reduction::sum ? total + value : std::max(total, value);
      CHECK(grouped[g] == value);
    }
    CHECK(all == total);
  }
}

template <int align_0>
std::vector<int> starts(const std::vector<int>& counts) {
  std::vector<int> start;
  int at = 0;
  for (const int count : counts) start.push_back(at), at += round_up(count, align_0);
  return start;
}

}  // namespace

TEST_CASE("sum over ragged rows, both halves of doubled columns, ragged columns") {
  const std::vector<int> counts = {0, 130, 1, 0, 300, 128, 0};
  std::vector<int> ends;
  int at = 0;
  for (const int count : counts) ends.push_back(at += count);
  Numbers p;
  p.group_sizes = ends.data(), p.groups = static_cast<int>(counts.size()), p.capacity = at + 70;
  check<Ragged, Reduction::sum, RowOrder::consecutive, 64, true>(p, counts, starts<1>(counts), p.capacity, 200, 2);
}

TEST_CASE("amax with rows in natural order") {
  const std::vector<int> counts = {5, 0, 260};
  const std::vector<int> ends = {5, 5, 265};
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 3, p.capacity = 265;
  check<Ragged, Reduction::amax, RowOrder::natural, 96, false>(p, counts, starts<1>(counts), 265, 288, 1);
}

TEST_CASE("groups with gaps that fill tiles, counted wide") {
  const std::vector<int> counts = {17, 0, 200};
  const std::vector<i64> sizes = {17, 0, 200};
  Numbers p;
  p.group_sizes = sizes.data(), p.groups = 3, p.capacity = 236;  // the last gap is cut
  check<Gapped, Reduction::sum, RowOrder::consecutive, 128, false>(p, counts, starts<16>(counts), 236, 96, 1);
}

TEST_CASE("one matrix, and batches") {
  Numbers p;
  p.capacity = 300;
  check<Dense, Reduction::sum, RowOrder::consecutive, 192, true>(p, {300}, {0}, 300, 72, 1);
}

TEST_CASE("batches") {
  Numbers p;
  p.groups = 3, p.batch_rows = 140, p.capacity = 420;
  check<Batches, Reduction::sum, RowOrder::natural, 64, true>(p, {140, 140, 140}, {0, 140, 280}, 420, 48, 2);
}

TEST_CASE("partials are the same bits under every tile width") {
  const std::vector<int> ends = {100, 100, 390};
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 3, p.capacity = 390;
  Matrix m = integers(390, 328, 2, 7);
  std::mt19937 random(5);
  for (float& v : m.v) v = std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 40));
  for (const Kind kind : {Kind::rows, Kind::columns, Kind::tiles}) {
    const auto narrow = partials_of<Ragged, Reduction::sum, RowOrder::consecutive, 32, true>(kind, m, p);
    const auto middle = partials_of<Ragged, Reduction::sum, RowOrder::consecutive, 96, true>(kind, m, p);
    const auto wide = partials_of<Ragged, Reduction::sum, RowOrder::consecutive, 192, true>(kind, m, p);
    CHECK(same_bits(narrow, middle));
    CHECK(same_bits(narrow, wide));
    // What is stored at all does not hang on the width either, and something is.
    CHECK(std::count_if(wide.begin(), wide.end(), [](float v) { return !std::isnan(v); }) > 0);
  }
}

TEST_CASE("a NaN wins amax and stays in its row, column and group; an infinity is a maximum") {
  const std::vector<int> ends = {150, 290};
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 2, p.capacity = 290, p.columns = 64, p.blocks = 2;
  Matrix m = integers(290, 64, 1, 3);
  m.at(0, 140, 33) = NAN;
  m.at(0, 141, 5) = -INFINITY;
  std::vector<float> rows(290), columns(128), tiles(2);
  for (const Kind kind : {Kind::rows, Kind::columns, Kind::tiles}) {
    auto partials = partials_of<Ragged, Reduction::amax, RowOrder::consecutive, 64, false>(kind, m, p);
    Numbers q = p;
    q.partials = partials.data(), q.partial_pitch = pitch_of(kind, m, p.capacity);
    q.out = kind == Kind::rows ? rows.data() : kind == Kind::columns ? columns.data() : tiles.data();
    if (kind == Kind::rows)
      launch(8, finish_rows_threads, [&] { finish_rows<Ragged, void, f32, Reduction::amax, false, false, 0>(q); });
    else if (kind == Kind::columns)
      launch(2, finish_columns_threads,
             [&] { finish_columns<Ragged, void, f32, Reduction::amax, false, false, true>(q); });
    else
      launch(2, finish_tiles_threads, [&] { finish_tiles<Ragged, void, f32, Reduction::amax, false, false, true>(q); });
  }
  CHECK(std::count_if(rows.begin(), rows.end(), [](float v) { return std::isnan(v); }) == 1);
  CHECK(std::isnan(rows[140]));
  CHECK(rows[141] == INFINITY);
  CHECK(std::count_if(columns.begin(), columns.end(), [](float v) { return std::isnan(v); }) == 1);
  CHECK(std::isnan(columns[33]));
  CHECK(columns[5] == INFINITY);
  CHECK(columns[64 + 5] <= 100);
  CHECK(std::isnan(tiles[0]));
  CHECK(tiles[1] <= 100);
}
