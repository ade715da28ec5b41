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

// To the nearest number of a format, ties to even; formats of 8 and 4 bits saturate.
long double round_naively(Storage storage, long double value);

// What a float format is made of: its largest number, the bits of its mantissa, and the exponent of its smallest normal
// number.
long double largest_naively(Storage storage);
int mantissa_naively(Storage storage);
int least_exponent_naively(Storage storage);

// The bits in memory at an element of a buffer (of at most 32), and the number that bits stand for (f32, bf16, f16,
// e4m3, e5m2, e2m1, e8m0, i32; in memory also i64).
uint32_t code_naively(Storage storage, const std::vector<uint8_t>& bytes, int64_t position);
long double decode_naively(Storage storage, uint32_t code);
long double decode_naively(Storage storage, const std::vector<uint8_t>& bytes, int64_t position);

}  // namespace epifuse::test
