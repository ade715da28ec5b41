#include "compiler/interpreter/rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/interpreter/exact_sums.h"

namespace epifuse::interpreter {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Sixteen terms are added in any order: no term goes through more than 15 roundings.
constexpr double sum_error = 15 * 0x1.01p-24;
// What underflow of the multiplication by 1/4 may add.
constexpr double underflow = 0x1p-149;
// Partial sums below this do not overflow.
constexpr double f32_largest = 0x1.fffffep127;

}  // namespace

void Rotation::add(int r, const Lane& x, int i) {
  const bool negative = ((signs_ >> r & 1) ^ (std::popcount(static_cast<unsigned>(r & c_)) & 1)) != 0;
  value_ += negative ? -x.value[i] : x.value[i];
  if (!x.low) return;
  low_ += negative ? -x.high[i] : x.low[i];
  high_ += negative ? -x.low[i] : x.high[i];
  jumps_ = jumps_ || x.jumps[i] != 0;
  magnitude_ += std::max(std::fabs(x.low[i]), std::fabs(x.high[i]));
  if (x.low[i] != x.high[i])
    exact_ = false;
  else if (x.value[i] != 0 && std::isfinite(x.value[i]))
    grid_ = std::min(grid_, lowest_bit(x.value[i]));
}

void Rotation::store(const Lane& into, int i) const {
  into.value[i] = value_ / 4;
  if (!into.low) return;
  into.jumps[i] = jumps_;
  // An order of the sum may overflow where another does not.
  if (std::isfinite(value_) && !(magnitude_ < f32_largest)) {
    into.low[i] = into.high[i] = nan;
    return;
  }
  // Whole steps of a common grid, fewer than f32 can count: every partial sum is exact, and so is a quarter of it but
  // among the subnormals.
  const bool is_exact = exact_ && magnitude_ < std::ldexp(1.0, std::min(24 + grid_, 1000)) && grid_ >= -147;
  const double error = is_exact || !std::isfinite(value_) ? 0 : sum_error * magnitude_ + underflow;
  into.low[i] = (low_ - error) / 4;
  into.high[i] = (high_ + error) / 4;
}

}  // namespace epifuse::interpreter
