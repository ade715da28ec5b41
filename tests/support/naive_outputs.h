// Outputs against the naive evaluation: every element of every buffer, gaps and what nobody writes included.
#pragma once

#include <map>
#include <string>

#include "tests/support/naive_evaluation.h"

namespace epifuse::test {

struct NaiveReport {
  std::string mismatch;                   // the first difference, with its place; empty when all agrees
  int64_t elements = 0;                   // compared, scales included
  int64_t undecided = 0;                  // those that hang on digits that double does not have
  std::map<std::string, int64_t> blocks;  // of scaled outputs, by what their largest magnitude is: "zero"
};

// `stored` has the outputs of a computation in double precision whose bytes were `before` (where those are given) or
// `poison`. Plain elements are the naive value, rounded once; codes are those under the stored scale, and scales follow
// from the largest magnitude of the block. Where double may round to the other side, both are right; where it may not,
// scales and codes are compared bit for bit.
NaiveReport compare_naively(NaiveEvaluation& evaluation, const interpreter::Buffers& stored,
                            const interpreter::Buffers& before = {}, uint8_t poison = 0xFF);

// How many estimated errors a double may be away from the naive value.
constexpr long double naive_safety = 8;

}  // namespace epifuse::test
