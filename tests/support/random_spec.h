// Random valid specs: a GEMM of every form (or none) with a random epilogue, forward and backward.
//
//   products     dense, batched, ragged rows, contraction of rows (ragged and dense), weights with either dimension
//                last, halves of inputs, two products in one loop, one buffer for each group; or no gemm at all
//   values       expressions up to twelve operations deep over every pointwise function, with inputs of every type and
//                broadcast, params and constants; halves in every deal; `grad` of what was made, taken through splits
//   rotations    along either dimension, with and without signs, before other operations
//   outputs      one to four of every type, in rows and transposed, over packed and aligned rows and over slots; scaled
//                types with every option and layout, blocks along either dimension, two orders of one value; sums and
//                largest magnitudes over rows, columns, groups and everything; ends of groups; `+=`
//
// Values stay in ranges where a comparison means something: arguments of functions with poles are kept away from them,
// and comparisons are between numbers that every machine has exactly. Now and then a NaN is wanted, and made of an
// input; of what is stored in blocks, some are made zero, or too small, or not finite. What the compiler refuses by
// name is not known here.
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
  // To run it: rows of each group of M, or the sizes of dyns; and rows behind the last group.
  std::optional<std::vector<int64_t>> counts;
  std::map<std::string, int64_t> sizes;
  int64_t slack_rows = 0;
  std::map<std::string, std::vector<double>> given;  // f32 inputs, scalar or one for each group; the others are made

  // What a failing test prints.
  std::string describe() const;
};

enum class SpecSize {
  device,  // several tiles of a kernel
  tiny,    // a few thousand elements: for an evaluation one by one
};

// The same seed gives the same spec on every machine.
RandomSpec random_spec(uint64_t seed, SpecSize size = SpecSize::device);

}  // namespace epifuse::test
