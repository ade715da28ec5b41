// Outputs against the naive evaluation: every element of every buffer, gaps and what nobody writes included.
#pragma once

#include <string>

#include "tests/support/naive_evaluation.h"

namespace epifuse::test {

struct NaiveReport {
  std::string mismatch;   // the first difference, with its place; empty when all agrees
  int64_t elements = 0;   // compared
  int64_t undecided = 0;  // those that hang on digits that double does not have
};

// `stored` has the outputs of a computation in double precision whose bytes were `before` (where those are given) or
// `poison`. Plain elements are the naive value, rounded once; codes are those under the stored scale, and scales follow
// from the largest magnitude of the block. Where double may round to the other side, both are right.
NaiveReport compare_naively(NaiveEvaluation& evaluation, const interpreter::Buffers& stored,
                            const interpreter::Buffers& before = {}, uint8_t poison = 0xFF);

}  // namespace epifuse::test
