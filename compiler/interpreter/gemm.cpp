// Runs a task and measures its operands, from which the error bound of the device's f32 sums follows.
#include "compiler/interpreter/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/interpreter/parallel.h"

namespace epifuse::interpreter {
namespace {

// Accumulation on the device. Products are exact; sums are truncated to so many bits below the largest of them.
// bf16 and f16 operands accumulate in f32. FP8 operands accumulate in about 14 bits until they are promoted to f32
// (numerics.md §10), so their sums are exact only while they stay short.
struct Accumulation {
  double unit;         // relative size of one truncation
  double exact_below;  // grid steps
};
constexpr Accumulation wide = {0x1p-23, 0x1p24};
constexpr Accumulation fp8 = {0x1p-13, 0x1p13};

bool is_fp8(const HostTensor& tensor) { return tensor.storage == Storage::e4m3 || tensor.storage == Storage::e5m2; }

// An upper bound of the number of truncations that can add up: one per step of 16 along the contraction, and the 16
// alignments inside a step (numerics.md §11.3). By Cauchy-Schwarz |a| |b| bounds the sum of the products' magnitudes.
double error_factor(int64_t depth, const Accumulation& accumulation) {
  return (static_cast<double>(depth) / 16 + 16) * accumulation.unit;
}

// The exponent of the lowest set bit of a finite nonzero double.
int lowest_bit(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52) & 0x7FF;
  return fraction == 0 ? field - 1023 : field - 1075 + std::countr_zero(fraction);
}

struct Measure {
  double norm = 0;
  int grid = GemmResult::empty_grid;
};

Measure measure(const GemmOperand& operand, int64_t row, int64_t k, int64_t depth) {
  Measure result;
  if (operand.rows[row] < 0) return result;
  constexpr int64_t chunk = 256;
  double values[chunk];
  double sum = 0;
  for (int64_t done = 0; done < depth; done += chunk) {
    const int64_t n = std::min(chunk, depth - done);
    load(*operand.tensor, operand.rows[row] + (k + done) * operand.k_step, operand.k_step, n, values);
    for (int64_t i = 0; i < n; ++i) {
      sum += values[i] * values[i];
      if (values[i] != 0) result.grid = std::min(result.grid, lowest_bit(values[i]));
    }
  }
  result.norm = std::sqrt(sum);
  return result;
}

}  // namespace

double GemmResult::radius(int64_t row, int64_t col) const {
  const int32_t block = block_of_row[row];
  const double bound = a_norm[row] * b_norm[block * cols + col];
  const int grid = a_grid[row] + b_grid[block * cols + col];
  if (bound < std::ldexp(exact_below, grid)) return 0;
  return bound * block_error[block];
}

Result<GemmResult> run_gemm(const Problem& problem, ir::NodeId node, GemmProvider& provider, int threads) {
  Result<GemmPlan> plan = plan_gemm(problem, node);
  if (!plan) return plan.error();
  const GemmTask& task = plan->task;
  GemmResult result;
  result.row_axes = plan->row_axes;
  result.col_axes = plan->col_axes;
  result.rows = task.rows;
  result.cols = task.cols;
  result.c = std::make_unique_for_overwrite<double[]>(static_cast<size_t>(task.rows * task.cols));
  if (Status status = provider.multiply(task, result.c.get()); !status) return status.error();

  const Accumulation& accumulation = is_fp8(*task.a.tensor) && is_fp8(*task.b.tensor) ? fp8 : wide;
  result.exact_below = accumulation.exact_below;
  const int64_t blocks = static_cast<int64_t>(task.blocks.size());
  result.block_of_row.assign(static_cast<size_t>(task.rows), -1);
  result.a_norm.resize(static_cast<size_t>(task.rows));
  result.a_grid.resize(static_cast<size_t>(task.rows));
  result.b_norm.resize(static_cast<size_t>(blocks * task.cols));
  result.b_grid.resize(static_cast<size_t>(blocks * task.cols));
  for (int64_t i = 0; i < blocks; ++i) {
    const GemmBlock& block = task.blocks[i];
    result.block_error.push_back(error_factor(block.depth, accumulation));
    std::fill_n(result.block_of_row.begin() + block.c_row, block.rows, static_cast<int32_t>(i));
  }
  parallel_for(task.rows, threads, [&](int64_t row) {
    if (result.block_of_row[row] < 0) return;
    const GemmBlock& block = task.blocks[result.block_of_row[row]];
    const Measure m = measure(task.a, block.row_begin + row - block.c_row, block.a_k, block.depth);
    result.a_norm[row] = m.norm;
    result.a_grid[row] = m.grid;
  });
  parallel_for(blocks * task.cols, threads, [&](int64_t i) {
    const GemmBlock& block = task.blocks[i / task.cols];
    if (block.rows == 0) return;
    const Measure m = measure(task.b, block.col_begin + i % task.cols, block.b_k, block.depth);
    result.b_norm[i] = m.norm;
    result.b_grid[i] = m.grid;
  });
  return result;
}

}  // namespace epifuse::interpreter
