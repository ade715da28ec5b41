// What one tile of an output adds to the verdict. Tiles are judged in parallel and added up in their order, so that a
// verdict does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/interpreter/compare.h"

namespace epifuse::interpreter {

// Sums of squares over some elements.
struct Norms {
  double error = 0;  // stored - reference
  double reference = 0;
  double rounding = 0;  // reference as stored without any error before - reference: cannot be avoided
  double slack = 0;     // what the device's f32 arithmetic may reach beside (Tile::slack)

  // One element. Infinite errors are judged one by one, and would hide all others here.
  void add(double error_of_one, double value, double rounding_of_one, double slack_of_one) {
    error += error_of_one * error_of_one;
    reference += value * value;
    if (std::isfinite(rounding_of_one)) rounding += rounding_of_one * rounding_of_one;
    if (std::isfinite(slack_of_one)) slack += slack_of_one * slack_of_one;
  }

  void add(const Norms& other) {
    error += other.error;
    reference += other.reference;
    rounding += other.rounding;
    slack += other.slack;
  }
  double relative() const { return error == 0 ? 0 : std::sqrt(error / reference); }
  // The limit grows where rounding alone would exceed it (subnormals, saturation), or where cancellation leaves so
  // little of the reference that the error of the sums shows.
  bool within(double limit) const {
    return std::sqrt(error) <= std::max(limit * std::sqrt(reference), 1.05 * std::sqrt(rounding) + std::sqrt(slack));
  }
};

struct Tally : Counts {
  std::vector<Norms> strips;  // of the tile's columns, strip_width each
  int group = -1;
  int64_t first_column = 0;
  WorstElement worst;
};

}  // namespace epifuse::interpreter
