// What one tile of an output adds to the verdict. Tiles are judged in parallel and added up in their order, so that a
// verdict does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/jumps.h"

namespace epifuse::interpreter {

// What is known of one element before a run is looked at.
struct Expected {
  double value, low, high;
  double slack;  // Tile::slack
  bool jumps;    // Lane::jumps
};

// Sums of squares over some elements.
struct Norms {
  double error = 0;         // stored - reference, of elements that do not jump (Lane::jumps)
  double jumped_error = 0;  // … and of those that do
  double reference = 0;
  double rounding = 0;  // reference as stored without any error before - reference: cannot be avoided
  double slack = 0;     // what the device's f32 arithmetic may reach beside (Tile::slack)
  Jumps jumps;

  // One element. Infinite errors are judged one by one, and would hide all others here.
  void add(double error_of_one, double rounding_of_one, const Expected& expected) {
    (expected.jumps ? jumped_error : error) += error_of_one * error_of_one;
    reference += expected.value * expected.value;
    if (std::isfinite(rounding_of_one)) rounding += rounding_of_one * rounding_of_one;
    if (expected.jumps)
      jumps.add(expected.value, expected.low, expected.high);
    else if (std::isfinite(expected.slack))
      slack += expected.slack * expected.slack;
  }

  void add(const Norms& other) {
    error += other.error;
    jumped_error += other.jumped_error;
    reference += other.reference;
    rounding += other.rounding;
    slack += other.slack;
    jumps.add(other.jumps);
  }
  double relative() const {
    const double all = error + jumped_error;
    return all == 0 ? 0 : std::sqrt(all / reference);
  }
  // The limit grows where rounding alone would exceed it (subnormals, saturation), or where cancellation leaves so
  // little of the reference that the error of the sums shows. What jumps is held against a limit of its own, so that
  // nothing hides behind it.
  bool within(double limit) const {
    const double reached = std::max(limit * std::sqrt(reference), 1.05 * std::sqrt(rounding) + std::sqrt(slack));
    return std::sqrt(error) <= reached && std::sqrt(jumped_error) <= reached + jumps.norm();
  }
};

struct Tally : Counts {
  std::vector<Norms> strips;  // of the tile's columns, strip_width each
  int group = -1;
  int64_t first_column = 0;
  WorstElement worst;
};

}  // namespace epifuse::interpreter
