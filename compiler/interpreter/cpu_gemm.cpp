// The double-precision product on the cores of this machine: operands are converted panel by panel, and a small block
// of sums stays in vector registers over a panel's depth.
#include <algorithm>

#include "compiler/interpreter/gemm.h"
#include "compiler/interpreter/parallel.h"

// The same source for the vector units that a machine may have; chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EPIFUSE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EPIFUSE_VECTOR_CLONES
#endif

namespace epifuse::interpreter {
namespace {

constexpr int64_t tile_rows = 128, tile_cols = 128, tile_depth = 256;
static_assert(tile_rows == tile_cols && tile_rows <= tile_depth);
constexpr int64_t lanes = 8, group_rows = 4;
using Lanes = double __attribute__((vector_size(lanes * sizeof(double))));

struct Panels {
  alignas(64) double a[tile_rows * tile_depth];  // [row][k]
  alignas(64) double b[tile_cols * tile_depth];  // [col / lanes][k][col % lanes]
  alignas(64) double c[tile_rows * tile_cols];   // [row][col]
};

// c += a * b over `depth`; rows and columns beyond the matrix hold zeros.
EPIFUSE_VECTOR_CLONES void multiply_panels(const double* a, const double* b, double* c, int64_t depth) {
  for (int64_t col = 0; col < tile_cols; col += lanes) {
    const Lanes* strip = reinterpret_cast<const Lanes*>(b + col * tile_depth);
    for (int64_t row = 0; row < tile_rows; row += group_rows) {
      const double* first = a + row * tile_depth;
      Lanes sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
      for (int64_t k = 0; k < depth; ++k) {
        const Lanes value = strip[k];
        sum0 += first[k] * value;
        sum1 += first[k + tile_depth] * value;
        sum2 += first[k + 2 * tile_depth] * value;
        sum3 += first[k + 3 * tile_depth] * value;
      }
      const Lanes sums[group_rows] = {sum0, sum1, sum2, sum3};
      for (int64_t i = 0; i < group_rows; ++i) *reinterpret_cast<Lanes*>(c + (row + i) * tile_cols + col) += sums[i];
    }
  }
}

// Converts [count rows][depth], calling put(row, k, value); reads in the direction in which the buffer is contiguous.
template <class Put>
void convert(const GemmOperand& operand, int64_t row_begin, int64_t count, int64_t k, int64_t depth, Put put) {
  double values[tile_depth];
  if (operand.k_step == 1) {
    for (int64_t row = 0; row < count; ++row) {
      const int64_t position = operand.rows[row_begin + row];
      if (position < 0) std::fill_n(values, depth, 0.0);
      if (position >= 0) load(*operand.tensor, position + k, 1, depth, values);
      for (int64_t i = 0; i < depth; ++i) put(row, i, values[i]);
    }
    return;
  }
  // Rows that are there, and where they lie.
  int64_t rows[tile_rows], positions[tile_rows], present = 0;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t position = operand.rows[row_begin + row];
    if (position < 0) {
      for (int64_t i = 0; i < depth; ++i) put(row, i, 0);
    } else {
      rows[present] = row;
      positions[present++] = position + k * operand.k_step;
    }
  }
  for (int64_t i = 0; i < depth; ++i) {
    load_at(*operand.tensor, positions, present, values);
    for (int64_t n = 0; n < present; ++n) {
      put(rows[n], i, values[n]);
      positions[n] += operand.k_step;
    }
  }
}

void multiply_tile(const GemmTask& task, const GemmBlock& block, int64_t row, int64_t col, double* into) {
  thread_local const std::unique_ptr<Panels> panels = std::make_unique<Panels>();
  Panels& p = *panels;
  const int64_t rows = std::min(tile_rows, block.rows - row), cols = std::min(tile_cols, task.cols - col);
  std::fill(std::begin(p.a), std::end(p.a), 0.0);
  std::fill(std::begin(p.b), std::end(p.b), 0.0);
  std::fill(std::begin(p.c), std::end(p.c), 0.0);
  for (int64_t k = 0; k < block.depth; k += tile_depth) {
    const int64_t depth = std::min(tile_depth, block.depth - k);
    convert(task.a, block.row_begin + row, rows, block.a_k + k, depth,
            [&](int64_t r, int64_t i, double v) { p.a[r * tile_depth + i] = v; });
    convert(task.b, block.col_begin + col, cols, block.b_k + k, depth,
            [&](int64_t c, int64_t i, double v) { p.b[c / lanes * lanes * tile_depth + i * lanes + c % lanes] = v; });
    multiply_panels(p.a, p.b, p.c, depth);
  }
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(p.c + r * tile_cols, cols, into + (block.c_row + row + r) * task.cols + col);
}

class CpuGemm final : public GemmProvider {
 public:
  explicit CpuGemm(int threads) : threads_(threads) {}

  Status multiply(const GemmTask& task, double* c) override {
    struct Tile {
      const GemmBlock* block;
      int64_t row, col;
    };
    std::vector<Tile> tiles;
    for (const GemmBlock& block : task.blocks)
      for (int64_t row = 0; row < block.rows; row += tile_rows)
        for (int64_t col = 0; col < task.cols; col += tile_cols) tiles.push_back({&block, row, col});
    parallel_for(static_cast<int64_t>(tiles.size()), threads_,
                 [&](int64_t i) { multiply_tile(task, *tiles[i].block, tiles[i].row, tiles[i].col, c); });
    return {};
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<GemmProvider> cpu_gemm(int threads) { return std::make_unique<CpuGemm>(threads); }

}  // namespace epifuse::interpreter
