// The products of a graph, in double precision.
//
// A gemm node, whatever it is (dense, batched, ragged rows, ragged contraction), becomes one row-major result and a
// list of blocks: C[c_row + r, c] = sum over k of A[row_begin + r, a_k + k] * B[col_begin + c, b_k + k].
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "compiler/interpreter/problem.h"

namespace epifuse::interpreter {

// A matrix [row, k] in a buffer: element (row, k) lies at position rows[row] + k * k_step, in elements. A row at
// position -1 holds zeros (a gather by a negative index) or lies outside the groups and is not used.
struct GemmOperand {
  const HostTensor* tensor = nullptr;  // f32, bf16, f16, e4m3 or e5m2; scaled inputs come dequantised, as f32
  std::vector<int64_t> rows;
  int64_t k_step = 1;
};

struct GemmBlock {
  int64_t row_begin = 0, rows = 0;
  int64_t col_begin = 0;
  int64_t a_k = 0, b_k = 0, depth = 0;
  int64_t c_row = 0;
};

struct GemmTask {
  const ir::Node* node = nullptr;
  GemmOperand a, b;
  std::vector<GemmBlock> blocks;  // of different groups or batches; their results do not overlap
  int64_t rows = 0, cols = 0;     // of the result
};

// Where the multiplication is done. The default runs on the cores of this machine; a GPU can be plugged in.
class GemmProvider {
 public:
  virtual ~GemmProvider() = default;
  // Fills the rows of `c` [task.rows, task.cols] that belong to a block (with zeros where depth is 0); the others are
  // not read. Products and sums in double.
  virtual Status multiply(const GemmTask& task, double* c) = 0;
};

std::unique_ptr<GemmProvider> cpu_gemm(int threads = 0);

// Which axes of the result a name of the node's shape moves along.
struct GemmAxis {
  ir::Extent name;
  int64_t stride;  // in rows or in columns
};

struct GemmResult {
  std::vector<GemmAxis> row_axes, col_axes;
  int64_t rows = 0, cols = 0;
  std::unique_ptr<double[]> c;

  // For bounds: block of each row (-1: none); of A per row of C, of B per block and column of C, the Euclidean norm
  // over k and the exponent of the grid: the largest power of two that divides every element.
  std::vector<int32_t> block_of_row;
  std::vector<double> a_norm, b_norm;
  std::vector<int> a_grid, b_grid;
  std::vector<double> block_error;  // per block, relative to |a| |b|
  double exact_below = 0;           // sums of fewer grid steps than this are exact on the device, in any order

  static constexpr int empty_grid = std::numeric_limits<int>::max() / 4;  // all elements are zero

  // |device - this| at a row and column is at most this; 0 where every partial sum is exact.
  double radius(int64_t row, int64_t col) const;
};

// Gemm results by node.
using GemmResults = std::map<ir::NodeId, GemmResult>;

// The task of a node. `made` keeps buffers that had to be made for it.
struct GemmPlan {
  GemmTask task;
  std::vector<GemmAxis> row_axes, col_axes;
  std::deque<HostTensor> made;
};
Result<GemmPlan> plan_gemm(const Problem& problem, ir::NodeId node);

Result<GemmResult> run_gemm(const Problem& problem, ir::NodeId node, GemmProvider& provider, int threads);

}  // namespace epifuse::interpreter
