// What a kernel has to do whatever its plan: operations of its products, and bytes that must cross the memory bus when
// every buffer is read or written once. From the graph and the sizes of one launch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "compiler/ir/buffers.h"
#include "compiler/ir/graph.h"

namespace epifuse::ir {

// What only a launch knows.
struct LaunchSizes {
  std::map<std::string, std::vector<int64_t>> counts;  // rows of each group, by grouped dimension
  std::map<std::string, int64_t> sizes;                // of each `dyn`
};

struct BufferWork {
  Buffer buffer;
  std::vector<int64_t> extents;  // as allocated: capacities
  int64_t bytes = 0;             // … of all of it
  double read = 0, written = 0;  // at least, by a launch
};

struct Work {
  // Multiplications and additions of the products, by the width of the narrower operands' instruction: of 16 bits (or
  // one operand of them), and of 8 or less.
  double flop_16 = 0, flop_8 = 0;
  std::vector<BufferWork> buffers;
  double read = 0, written = 0;  // bytes, of all buffers

  // The same result from two launches: the products alone, which leave what they make as bf16 where no output stores it
  // plainly anyway, and one pass over memory that does all the rest. Bytes of both; without a product, or with nothing
  // to do behind it, there is no pass (0).
  double product_bytes = 0, pass_bytes = 0;

  double flop() const { return flop_16 + flop_8; }
  double bytes() const { return read + written; }
};

// Rows outside the groups, weights of groups without rows, rows that no index names, and inputs that no output depends
// on are not counted; the zeros of gaps are. Errors (user): a dimension without a number, or counts that are not one
// for each group.
Result<Work> least_work(const Graph& graph, const LaunchSizes& sizes);

// The least time that work can take, in milliseconds: of the tensor cores, and of the memory bus when both overlap
// perfectly.
struct Floor {
  double tensor_ms = 0, memory_ms = 0;
  double two_launches_ms = 0;  // of the products alone and the pass behind them, each at its own floor

  double ms() const { return tensor_ms > memory_ms ? tensor_ms : memory_ms; }
};
Floor floor_of(const Work& work, const TargetFigures& figures, int multiprocessors, double clock_mhz);

}  // namespace epifuse::ir
