// Random specs of the family that is lowered: a GEMM, dense or over ragged rows, with a random epilogue. Expressions
// are up to twelve operations deep over every pointwise function, with inputs of every type and broadcast, params and
// constants; halves in every deal; one to four outputs of every type, in rows and transposed, over packed and aligned
// rows.
//
// Values stay in ranges where a comparison means something: arguments of functions with poles are kept away from them,
// and comparisons are between numbers that every machine has exactly. Now and then a NaN is wanted, and made of an
// input.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace epifuse::test {

struct RandomSpec {
  uint64_t seed = 0;
  std::string text;                // of a file with one kernel; the dims have defaults
  std::set<std::string> left_out;  // optional inputs that the caller leaves out
  // To run it: rows of each group of M, or the number of rows S of a dense one; and rows behind the last group.
  std::optional<std::vector<int64_t>> counts;
  std::map<std::string, int64_t> sizes;
  int64_t slack_rows = 0;

  // What a failing test prints.
  std::string describe() const;
};

// The same seed gives the same spec on every machine.
RandomSpec random_spec(uint64_t seed);

}  // namespace epifuse::test
