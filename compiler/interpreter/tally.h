// What one tile of an output adds to the verdict. Tiles are judged in parallel and added up in their order, so that a
// verdict does not depend on the number of threads.
#pragma once

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
  double radius = 0;    // half the interval

  void add(const Norms& other) {
    error += other.error;
    reference += other.reference;
    rounding += other.rounding;
    radius += other.radius;
  }
  double relative() const { return error == 0 ? 0 : std::sqrt(error / reference); }
  // The limit grows where rounding alone would exceed it (subnormals, saturation), or where cancellation leaves so
  // little of the reference that the error of the sums shows: an eighth of the bound of the worst case is far above
  // what sums of random errors reach, and far below what a wrong kernel does.
  bool within(double limit) const {
    return std::sqrt(error) <=
           std::max(limit * std::sqrt(reference), 1.05 * std::sqrt(rounding) + std::sqrt(radius) / 8);
  }
};

struct Tally {
  int64_t elements = 0, outside = 0, different = 0;
  int64_t scales = 0, scales_outside = 0, scales_different = 0;
  int64_t nan_reference = 0, nan_stored = 0, saturated = 0, zero_signs = 0;
  std::vector<Norms> strips;  // of the tile's columns, strip_width each
  int group = -1;
  int64_t first_column = 0;
  WorstElement worst;
};

}  // namespace epifuse::interpreter
