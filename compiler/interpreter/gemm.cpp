// Runs a task and measures its operands, from which the error bound of the device's f32 sums follows.
#include "compiler/interpreter/gemm.h"

#include <algorithm>
#include <cmath>

#include "compiler/interpreter/exact_sums.h"
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

struct Measure {
  double norm = 0;
  int grid = GemmResult::empty_grid;
};

// Rows measured together: where the rows of a buffer are contiguous, across them, that is how it is read.
constexpr int64_t measured_rows = 64;

// Measures `count` (at most measured_rows) rows of an operand.
void measure(const GemmOperand& operand, int64_t row, int64_t count, int64_t k, int64_t depth, Measure* into) {
  constexpr int64_t chunk = 256;
  double values[chunk];
  const auto add = [&](Measure& measure, double value) {
    measure.norm += value * value;
    if (value != 0) measure.grid = std::min(measure.grid, lowest_bit(value));
  };
  int64_t rows[measured_rows], positions[measured_rows], present = 0;
  for (int64_t i = 0; i < count; ++i) {
    into[i] = {};
    if (operand.rows[row + i] < 0) continue;
    rows[present] = i;
    positions[present++] = operand.rows[row + i] + k * operand.k_step;
  }
  if (operand.k_step == 1) {
    for (int64_t i = 0; i < present; ++i)
      for (int64_t done = 0; done < depth; done += chunk) {
        const int64_t n = std::min(chunk, depth - done);
        load(*operand.tensor, positions[i] + done, 1, n, values);
        for (int64_t j = 0; j < n; ++j) add(into[rows[i]], values[j]);
      }
  } else {
    for (int64_t done = 0; done < depth; ++done) {
      load_at(*operand.tensor, positions, present, values);
      for (int64_t i = 0; i < present; ++i) {
        add(into[rows[i]], values[i]);
        positions[i] += operand.k_step;
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) into[i].norm = std::sqrt(into[i].norm);
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
  // Rows of A block by block, columns of B likewise, a few of them at a time.
  const auto measure_all = [&](bool of_a) {
    std::vector<std::pair<int64_t, int64_t>> tasks;  // block, first row or column
    for (int64_t i = 0; i < blocks; ++i)
      if (task.blocks[i].rows > 0)
        for (int64_t at = 0; at < (of_a ? task.blocks[i].rows : task.cols); at += measured_rows)
          tasks.push_back({i, at});
    parallel_for(static_cast<int64_t>(tasks.size()), threads, [&](int64_t number) {
      const auto [index, at] = tasks[number];
      const GemmBlock& block = task.blocks[index];
      const int64_t count = std::min(measured_rows, (of_a ? block.rows : task.cols) - at);
      Measure measures[measured_rows];
      if (of_a)
        measure(task.a, block.row_begin + at, count, block.a_k, block.depth, measures);
      else
        measure(task.b, block.col_begin + at, count, block.b_k, block.depth, measures);
      const int64_t to = of_a ? block.c_row + at : index * task.cols + at;
      for (int64_t i = 0; i < count; ++i) {
        (of_a ? result.a_norm : result.b_norm)[to + i] = measures[i].norm;
        (of_a ? result.a_grid : result.b_grid)[to + i] = measures[i].grid;
      }
    });
  };
  measure_all(true);
  measure_all(false);
  return result;
}

}  // namespace epifuse::interpreter
