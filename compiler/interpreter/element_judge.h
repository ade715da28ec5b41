// Judges the elements of one tile, one by one, into the tile's tally.
#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include "base/numbers.h"
#include "compiler/interpreter/output_walk.h"
#include "compiler/interpreter/tally.h"

namespace epifuse::interpreter {

inline bool is_nan(double x) { return x != x; }

// Whether the device may hold anything at all here: see the meaning of NaN bounds in map_ops.h.
inline bool is_unknown(double value, double low, double high) {
  const bool no_bounds = is_nan(low) || is_nan(high);
  return is_nan(value) != no_bounds;
}

// Whether two codes are the same number or neighbours. Floats count from the most negative number to the most positive.
inline bool one_step(const FloatFormat& format, uint32_t a, uint32_t b) {
  const auto place = [&](uint32_t code) {
    const auto magnitude = static_cast<int64_t>(code & (format.sign - 1));
    return code & format.sign ? -magnitude : magnitude;
  };
  const int64_t distance = place(a) - place(b);
  return -1 <= distance && distance <= 1;
}

class ElementJudge {
 public:
  // `largest`: the magnitude at which elements count as saturated.
  ElementJudge(const Tile& tile, const OutputWalk& walk, const ir::Graph& graph, Tally& tally, double largest);

  // `code` is what is stored and `stored` its value; `rounding` rounds as the store does (see rounding.h).
  template <class Rounding>
  void element(int64_t row, int64_t col, const Expected& expected, uint32_t code, double stored,
               const Rounding& rounding) {
    const double value = expected.value, low = expected.low, high = expected.high;
    const bool keeps_nan = rounding.keeps_nan();
    ++tally_.elements;
    tally_.nan_reference += keeps_nan && is_nan(value);
    tally_.nan_stored += is_nan(stored);
    tally_.saturated += std::fabs(stored) == largest_;
    if (keeps_nan && (is_nan(value) || is_nan(stored))) {
      if (is_nan(value) == is_nan(stored) || is_unknown(value, low, high)) return;
      ++tally_.different, ++tally_.more_steps;
      return outside(row, col, expected, stored, std::numeric_limits<double>::infinity());
    }
    const uint32_t reference = rounding.code(value);
    const double rounded = rounding.value(reference);
    const bool is_reference = rounding.grid(code) == rounding.grid(reference);
    if (!is_reference) {
      ++tally_.different;
      ++(one_step(rounding.format(), code, reference) ? tally_.one_step : tally_.more_steps);
    }
    tally_.zero_signs += low == high && stored == 0 && value == 0 && std::signbit(stored) != std::signbit(value);
    if (std::isfinite(value) && std::isfinite(stored))
      tally_.strips[col / strip_width].add(stored - value, rounded - value, expected);
    if (is_reference || is_unknown(value, low, high)) return;
    const uint32_t lowest = rounding.lowest(low), highest = rounding.highest(high);
    if (rounding.grid(lowest) <= rounding.grid(code) && rounding.grid(code) <= rounding.grid(highest)) return;
    const double distance = rounding.grid(code) < rounding.grid(lowest) ? rounding.value(lowest) - stored
                                                                        : stored - rounding.value(highest);
    outside(row, col, expected, stored, distance / std::max(std::fabs(value), 0x1p-126));
  }

  // A scale that is not the reference's, and one that is outside its interval.
  void scale_differs(uint32_t reference, uint32_t stored, bool uncertain);
  // `position`: where the scale lies in its buffer.
  void scale_outside(int64_t row, int64_t col, int64_t position, const Expected& expected, double stored);

 private:
  void outside(int64_t row, int64_t col, const Expected& expected, double stored, double excess);
  void note(int64_t row, int64_t col, WorstElement element);

  const Tile& tile_;
  const OutputWalk& walk_;
  const ir::Graph& graph_;
  Tally& tally_;
  double largest_;
};

}  // namespace epifuse::interpreter
