// What the finishing launches do beside joining: storage types, `+=`, empty groups, buffers of their own.
#include "base/numbers.h"
#include "tests/reductions/reduction_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

using Plan = RowsPlanOf<Groups::ends, 1, 1>;

// Results of a GEMM that contracts groups: three of 130 rows, two tiles each.
struct Results : RowsPlanOf<Groups::uniform, 1, 1> {};
struct Depth : RowsPlanOf<Groups::ends, 1, 1> {};

}  // namespace

TEST_CASE("+= adds once in f32 and rounds once; an empty group's buffer stays as it is, under = it becomes zero") {
  const std::vector<int> ends = {1, 1, 300};  // 1, 0 and 3 tiles
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 3, p.capacity = 300, p.columns = p.partial_pitch = 8;
  std::vector<float> partials(4 * 8, 1.f / 128);
  partials[3 * 8 + 2] = 1;
  p.partials = partials.data();
  auto bits = [](double v) { return static_cast<u16>(encode(Storage::bf16, v)); };
  std::vector<u16> out(24, bits(1)), want(24, bits(1));
  out[16 + 1] = want[16 + 1] = bits(-1);
  p.out = out.data();
  launch(3, finish_columns_threads, [&] { finish_columns<Plan, void, bf16, Reduction::sum, true, false, true>(p); });
  for (size_t c = 0; c < 8; ++c) {
    want[c] = bits(1 + 1. / 128);
    want[16 + c] = bits(c == 1 ? -1 + 3. / 128 : c == 2 ? 2 + 2. / 128 : 1 + 3. / 128);
  }
  CHECK(out == want);
  launch(3, finish_columns_threads, [&] { finish_columns<Plan, void, bf16, Reduction::sum, false, false, true>(p); });
  CHECK(out[8] == 0);
  CHECK(out[16] == bits(3. / 128));

  // Over all rows of none.
  const std::vector<int> none = {0, 0, 0};
  p.group_sizes = none.data();
  launch(1, finish_columns_threads, [&] { finish_columns<Plan, void, bf16, Reduction::sum, true, false, false>(p); });
  CHECK(out[0] == bits(1. / 128));
  launch(1, finish_columns_threads, [&] { finish_columns<Plan, void, bf16, Reduction::amax, false, false, false>(p); });
  CHECK(out[0] == 0);
}

TEST_CASE("a group may have a buffer of its own") {
  const std::vector<int> ends = {128, 256};
  std::vector<float> partials = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, a(8), b(8);
  void* buffers[2] = {b.data(), a.data()};
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 2, p.capacity = 256, p.columns = p.partial_pitch = 8;
  p.partials = partials.data(), p.out = buffers;
  launch(2, finish_columns_threads, [&] { finish_columns<Plan, void, f32, Reduction::sum, false, true, true>(p); });
  CHECK(b == std::vector<float>(partials.begin(), partials.begin() + 8));
  CHECK(a == std::vector<float>(partials.begin() + 8, partials.end()));
  launch(2, finish_tiles_threads, [&] { finish_tiles<Plan, void, f32, Reduction::amax, false, true, true>(p); });
  CHECK(b[0] == 8);
  CHECK(a[0] == 16);
}

TEST_CASE("+= leaves the results of a group alone that contracts nothing") {
  const std::vector<int> ends = {7, 7, 9};
  std::vector<float> partials(6 * 8, 1.f), out(3 * 8, 10.f);
  for (size_t i = 2 * 8; i < 4 * 8; ++i) partials[i] = NAN;  // no tile wrote these
  Numbers p;
  p.group_sizes = ends.data(), p.groups = 3, p.capacity = 9, p.batch_rows = 130, p.columns = p.partial_pitch = 8;
  p.partials = partials.data(), p.out = out.data();
  launch(3, finish_columns_threads, [&] { finish_columns<Results, Depth, f32, Reduction::sum, true, false, true>(p); });
  for (size_t i = 0; i < 24; ++i) CHECK(out[i] == (i / 8 == 1 ? 10.f : 12.f));
  p.partial_pitch = 8;
  launch(3, finish_tiles_threads, [&] { finish_tiles<Results, Depth, f32, Reduction::sum, true, false, true>(p); });
  CHECK(out[0] == 12 + 16);
  CHECK(out[1] == 12);

  std::vector<float> of_rows(390, 10.f), row_partials(2 * 390, 1.f);
  p.partials = row_partials.data(), p.out = of_rows.data(), p.blocks = 2, p.partial_pitch = 390;
  launch(6, finish_rows_threads, [&] { finish_rows<Results, Depth, f32, Reduction::sum, true, false, 0>(p); });
  for (size_t i = 0; i < 390; ++i) REQUIRE(of_rows[i] == (i / 130 == 1 ? 10.f : 12.f));
}

TEST_CASE("a sum of many partials is not a chain of them") {
  // Ones behind a 2^24 would all be lost, one by one.
  const int tiles = 4000;
  std::vector<int> ends;
  for (int i = 1; i <= tiles; ++i) ends.push_back(i);
  std::vector<float> partials(static_cast<size_t>(tiles) * 8, 1.f), out(8);
  for (int c = 0; c < 8; ++c) partials[static_cast<size_t>(c)] = 16777216.f;
  Numbers p;
  p.group_sizes = ends.data(), p.groups = tiles, p.capacity = tiles, p.columns = p.partial_pitch = 8;
  p.partials = partials.data(), p.out = out.data();
  launch(1, finish_columns_threads, [&] { finish_columns<Plan, void, f32, Reduction::sum, false, false, false>(p); });
  CHECK(out[0] > 16777216.f + 0.9f * tiles);
}
