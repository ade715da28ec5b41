// The interpreter: what a graph means, computed slowly and obviously in double precision on the host. It is the judge
// of every kernel (compare.h) and what `--device cpu` runs.
//
// Rounding: values are doubles, rounded only by `cast` and by the store, which rounds the double once. A quantiser
// takes its scale from the largest double of a block and rounds each double once; for numbers that are f32 that is what
// a device does bit for bit, for others compare.h knows the difference.
#pragma once

#include "base/result.h"
#include "compiler/interpreter/gemm.h"
#include "compiler/interpreter/output_walk.h"
#include "compiler/interpreter/problem.h"

namespace epifuse::interpreter {

// A problem with its products done: outputs can be computed or judged from it, one by one, in any order.
class Reference {
 public:
  // The graph and the buffers must outlive it; see Problem::bind for what is checked. `gemm` does the products.
  static Result<Reference> make(const ir::Graph& graph, const Buffers& buffers, const Params& params,
                                GemmProvider& gemm, int threads = 0);

  const Problem& problem() const { return problem_; }
  const GemmResults& gemms() const { return gemms_; }
  int threads() const { return threads_; }
  Result<OutputWalk> walk(const ir::Output& output, bool bounds) const;

  // Writes one output (and its scales) into `buffers`, where it must be. What the language does not write is kept.
  Status store(const ir::Output& output, Buffers& buffers) const;

 private:
  Problem problem_;
  GemmResults gemms_;
  int threads_ = 0;
};

// Where the groups of an output like `P.ends` end, one number per group.
std::vector<int64_t> group_ends(const Problem& problem, const ir::Node& node);

// Runs a graph: inputs, group sizes and, where they are given, outputs with what they held before, are in `buffers`;
// returned are the outputs. Without a provider the products run on this machine's cores.
Result<Buffers> run(const ir::Graph& graph, const Buffers& buffers, const Params& params = {},
                    GemmProvider* gemm = nullptr, int threads = 0);

}  // namespace epifuse::interpreter
