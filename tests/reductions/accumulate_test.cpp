// Plain sinks and their `+=` forms, for every storage type that may accumulate and both row orders, on short tiles.
#include "tests/reductions/reduction_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr int pitch = 160, rows_there = 77, columns_there = 48;
enum class Form { rows, alternating, transposed };

template <class Tag>
constexpr Storage storage_of() {
  return std::is_same_v<Tag, f32> ? Storage::f32 : std::is_same_v<Tag, bf16> ? Storage::bf16 : Storage::f16;
}

double value_at(int row, int column) { return (row * 37 + column * 11) % 64 / 8.0 - 3; }
double old_at(size_t index) { return static_cast<double>(index % 31) / 4; }

template <class Tag, bool accumulate, RowOrder order, bool aligned>
void check(Form form) {
  constexpr Storage storage = storage_of<Tag>();
  std::vector<u8> bytes(static_cast<size_t>(pitch * pitch * Tag::bytes));
  auto read = [&](size_t index) {
    uint32_t code = 0;
    std::memcpy(&code, &bytes[index * Tag::bytes], Tag::bytes);
    return decode(storage, code);
  };
  std::vector<double> want;
  for (size_t i = 0; i < bytes.size() / Tag::bytes; ++i) {
    const uint32_t code = encode(storage, old_at(i));
    std::memcpy(&bytes[i * Tag::bytes], &code, Tag::bytes);
    want.push_back(round_to(storage, old_at(i)));
  }
  const int limit = aligned ? 76 : rows_there, first = 4;
  for (int row = 0; row < limit; ++row)
    for (int n = 0; n < columns_there; ++n)
      for (int half = 0; half < (form == Form::alternating ? 2 : 1); ++half) {
        const int column = form == Form::alternating ? 2 * n + half : n;
        const size_t at = static_cast<size_t>(form == Form::transposed ? column * pitch + first + row
                                                                       : (first + row) * pitch + column);
        want[at] = round_to(storage, value_at(row, n + 100 * half) + (accumulate ? want[at] : 0));
      }
  REQUIRE(host::Cta::run(128, 0, [&] {
    const auto lane = LaneOf<order>::now();
    const OwnRowsOf<order> rows(lane, Rows{first, limit});
    for (int block = 0; block < 2; ++block) {
      const OwnColumns columns(lane, 32 * block, columns_there);
      Block values[2];
      for (int half = 0; half < 2; ++half)
        for (int i = 0; i < own_rows; ++i)
          for (int c = 0; c < own_columns; ++c)
            values[half].v[i][c] =
                static_cast<float>(value_at(lane.first_row() + lane.step(i), columns.first + c + 100 * half));
      if (form == Form::rows)
        store_rows<Tag, accumulate>(values[0], bytes.data(), pitch, rows, columns, columns.first);
      else if (form == Form::alternating)
        store_rows_alternating<Tag, accumulate>(values[0], values[1], bytes.data(), pitch, rows, columns);
      else
        store_transposed<Tag, aligned, accumulate>(values[0], bytes.data(), pitch, rows, columns, columns.first);
    }
  }));
  for (size_t i = 0; i < want.size(); ++i)
    if (read(i) != want[i])
      FAIL("element " << i / pitch << ", " << i % pitch << ": " << read(i) << ", not " << want[i]);
}

template <class Tag, bool accumulate>
void check_all() {
  for (const Form form : {Form::rows, Form::alternating, Form::transposed}) {
    INFO(static_cast<int>(form));
    check<Tag, accumulate, RowOrder::consecutive, false>(form);
    check<Tag, accumulate, RowOrder::natural, false>(form);
    check<Tag, accumulate, RowOrder::consecutive, true>(form);
  }
}

}  // namespace

TEST_CASE("plain sinks store what exists, and += adds to what was there") {
  check_all<f32, false>();
  check_all<f32, true>();
  check_all<bf16, false>();
  check_all<bf16, true>();
  check_all<f16, false>();
  check_all<f16, true>();
}
