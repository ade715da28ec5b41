// Host buffers to run a kernel on: those that the caller has, the rest made from a seed.
//
// Integers that index rows are rows that are there, every sixteenth -1. What an output's type names is what it needs:
// maxima are positive, seeds are any numbers.
//
// Equal options give equal bytes, on any number of threads. Rows of a made input that belong to no group hold NaN (of
// an integer type a number far out of range), since no kernel may let them into a result.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/interpreter/host_tensor.h"
#include "compiler/ir/graph.h"

namespace epifuse::jit {

enum class DataMode {
  normal,    // normally distributed; weights are scaled so that a product's variance is 1
  scaled,    // the same, each row times 2^u, u uniform in [-8, 8]
  integers,  // whole numbers from -2 to 2: sums of products are exact in f32
};

// Sizes are made up for so many groups at most. A kernel may have more: who runs it has the sizes in a buffer.
inline constexpr int64_t most_made_groups = int64_t{1} << 20;
Status check_made_groups(const std::string& dimension, int64_t groups);

struct InputOptions {
  interpreter::Buffers given;  // inputs and group sizes by name; their extents decide sizes
  // Rows of each group, for every grouped dimension whose sizes are not given. Without: 0 to 300 each, at random, or as
  // many as fit into the inputs that are given.
  std::optional<std::vector<int64_t>> counts;
  std::map<std::string, int64_t> sizes;  // of `dyn`s; those that nothing says are `default_size`
  int64_t slack_rows = 0;                // capacity behind the last group, where no given input says it
  uint64_t seed = 0;
  DataMode mode = DataMode::normal;
  // A made tensor of more floats than this (a multiple of 2^14) repeats itself from there on: enough where only time is
  // wanted. 0: it never does. Not with DataMode::scaled.
  int64_t repeat_after = 0;
  int threads = 0;

  static constexpr int64_t default_size = 1000;
};

// Every input of the graph that is not left out, with group sizes. The graph's `dim`s must be bound. Errors (user):
// what is given does not fit the graph, names the buffer.
Result<interpreter::Buffers> make_inputs(const ir::Graph& graph, const InputOptions& options);

}  // namespace epifuse::jit
