// Numbers of the naive evaluation: long double with an estimate of how far a computation in double may be from them.
//
// It shares nothing with compiler/interpreter and base/numbers: formats are written here once more, from their
// definitions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/storage.h"
#include "compiler/ir/graph.h"

namespace epifuse::test {

struct Estimate {
  long double value = 0;
  long double error = 0;  // infinite where a branch hangs on digits that double does not have
};

Estimate exactly(long double value);

Estimate operator+(const Estimate& a, const Estimate& b);
Estimate operator-(const Estimate& a, const Estimate& b);
Estimate operator*(const Estimate& a, const Estimate& b);
Estimate operator/(const Estimate& a, const Estimate& b);

// A pointwise operation of the IR.
Estimate apply_naively(const ir::Node& node, const std::vector<Estimate>& args);

// The derivative of a pointwise operation by each of its arguments (language.md V5), at these arguments.
std::vector<Estimate> partials_naively(const ir::Node& node, const std::vector<Estimate>& args);

// To the nearest number of a format, ties to even; 8-bit formats saturate.
long double round_naively(Storage storage, long double value);

// The number that a code in memory stands for (f32, bf16, f16, e4m3, e5m2, i32, i64, e8m0), at an element of a buffer.
long double decode_naively(Storage storage, const std::vector<uint8_t>& bytes, int64_t position);

// The exponent of the MX scale of a block under the rule `up`: the smallest for which nothing overflows.
int scale_exponent_naively(Storage element, long double amax);

}  // namespace epifuse::test
