// Random expressions over every pointwise operation of the language, whose values stay in a range where a comparison
// means something: arguments of functions with poles are kept away from them, and what grows is bent back.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace epifuse::test {

// An expression and what its values stay within.
struct Expression {
  std::string text;
  double low = 0, high = 0;
  bool exact = false;  // an input or a number: every machine has the same f32

  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
};

// Inside a few dozens: what grew beyond is bent back by a function that loses no digits.
Expression tamed(Expression e);

// A few digits, so that many are no f32.
std::string random_number(Random& random);

class ExpressionMaker {
 public:
  using Leaf = std::function<Expression()>;
  ExpressionMaker(Random& random, Leaf leaf) : random_(random), leaf_(std::move(leaf)) {}

  bool smooth = false;  // no kinks, no comparisons, no casts, no NaN
  bool nan = true;      // now and then a NaN where an input is negative

  // At most `depth` operations deep, thirty operations large.
  Expression make(int depth);

 private:
  Expression operation(int depth);
  Expression smooth_operation(int64_t kind, int depth);
  Expression kinked_operation(int64_t kind, int depth);
  Expression choice(const Expression& a, const Expression& b);
  Expression deep(int depth) { return operation(depth - 1); }
  // The second argument is shallower, or trees would have thousands of nodes.
  Expression shallow(int depth) { return operation(std::min(depth - 1, static_cast<int>(random_.below(3)))); }

  Random& random_;
  Leaf leaf_;
  int budget_ = 0;
};

}  // namespace epifuse::test
