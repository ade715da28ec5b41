// Runs a sink of a scaled format over a problem's tiles, and compares every byte with what it must have left.
#pragma once

#include <fmt/format.h>

#include "base/numbers.h"
#include "tests/codegen/quantised_expectation.h"
#include "tests/support/catch.h"

namespace epifuse::test {

using formats::Fp8Rule;
using formats::MxRule;
using formats::NonFinite;
using formats::NvRule;

using Mxfp8 = formats::MxFormat<e4m3, MxRule::up, NonFinite::propagate>;
using Mxfp8Wide = formats::MxFormat<e5m2, MxRule::floor, NonFinite::te>;
using Mxfp4 = formats::MxFormat<e2m1, MxRule::even, NonFinite::propagate>;
using Fp8 = formats::Fp8Blocks<e4m3, Fp8Rule::te_f32, NonFinite::propagate>;
using Nvfp4 = formats::Nvfp4<NvRule::up, NonFinite::propagate>;

constexpr RowOrder consecutive = RowOrder::consecutive, natural = RowOrder::natural;

inline std::string text(const SinkShape& s) {
  return fmt::format("blocks of {} x {}, layout {}{}{}{}{}, halves {} dealt by {}, tile {}{}", s.block_rows,
                     s.block_columns, static_cast<int>(s.layout), s.transposed ? ", transposed" : "",
                     s.along_rows ? ", along rows" : "", s.order == natural ? ", natural order" : "",
                     s.random ? ", random" : "", s.halves(), s.piece, s.part_tile, s.exchanged ? " exchanged" : "");
}

// Where two buffers differ first.
inline std::string difference(const std::vector<uint8_t>& written, const std::vector<uint8_t>& expected) {
  if (written.size() != expected.size()) return "sizes";
  for (size_t i = 0; i < written.size(); ++i)
    if (written[i] != expected[i])
      return fmt::format("byte {} of {}: {:#x}, expected {:#x}", static_cast<int64_t>(i) - int64_t{Stored::guard},
                         written.size() - 2 * Stored::guard, written[i], expected[i]);
  return "";
}

template <class Format, SinkShape shape>
void check(const Problem& problem) {
  use_conversions([](int storage, double value) { return encode(static_cast<Storage>(storage), value); },
                  [](int storage, uint32_t code) { return decode(static_cast<Storage>(storage), code); });
  const BlockFormat format = block_format<Format>();
  const SinkShape s = shape;
  const Expectation expectation(problem, s, format);
  Stored written = expectation.before();
  run_tiles<Format, shape>(problem, written);
  const Stored expected = expectation.after();
  INFO(text(s) << "; " << problem.rows.size() << " groups, the first of " << problem.rows[0] << " rows, "
               << problem.columns << " columns, alignment " << problem.alignment);
  CHECK(difference(written.codes, expected.codes) == "");
  CHECK(difference(written.scales, expected.scales) == "");
}

constexpr SinkShape turned(SinkShape shape, bool transposed, RowOrder order) {
  shape.transposed = transposed;
  shape.order = order;
  return shape;
}

// Both orders of rows and of the output.
template <class Format, SinkShape shape>
void check_orders(const Problem& problem) {
  check<Format, turned(shape, false, consecutive)>(problem);
  check<Format, turned(shape, true, consecutive)>(problem);
  check<Format, turned(shape, false, natural)>(problem);
  check<Format, turned(shape, true, natural)>(problem);
}

// columns: of a half.
inline Problem groups_of(int columns, int alignment = 128) {
  Problem problem;
  problem.seed = 4;
  problem.rows = {131, 22};
  problem.columns = columns;
  problem.alignment = alignment;
  return problem;
}

}  // namespace epifuse::test
