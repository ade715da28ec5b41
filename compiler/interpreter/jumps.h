// How far a good f32 device is from the reference, of the worst case that the intervals bound.
#pragma once

#include <algorithm>
#include <cmath>

namespace epifuse::interpreter {

// The share of an interval that errors reach: those of sums are random. An eighth of the bound of the worst case is far
// above them, and far below what a wrong kernel does.
inline constexpr double share_of_worst_case = 0.125;

// Numbers that jump (Lane::jumps): by one in so many, as far as its interval goes, because that is how far into it the
// number behind the jump may be.
class Jumps {
 public:
  void add(double value, double low, double high) {
    const double farthest = std::max(high - value, value - low);
    if (!std::isfinite(farthest)) return;
    squares_ += farthest * farthest;
    largest_ = std::max(largest_, farthest);
  }
  void add(const Jumps& other) {
    squares_ += other.squares_;
    largest_ = std::max(largest_, other.largest_);
  }

  // The norm of their errors. Where few jump, all may: as many as are expected and four standard deviations more, but
  // four at least.
  double norm() const {
    const double expected = share_of_worst_case * squares_;
    return std::sqrt(expected + 4 * std::sqrt(expected) * largest_ + 4 * largest_ * largest_);
  }

 private:
  double squares_ = 0, largest_ = 0;
};

}  // namespace epifuse::interpreter
