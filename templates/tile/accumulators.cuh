// The accumulators of one consumer warpgroup: 128 rows by `columns`, as two m64 fragments.
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "atom/wgmma.cuh"
#include "ptx/wgmma.cuh"

namespace epifuse {

template <class Operand, int columns>
struct Accumulators {
  static constexpr int blocks = columns / block_columns;
  static constexpr int per_block = 16;  // registers of one block in each fragment

  float low[columns / 2];   // rows 32w + 4q + {0, 1}
  float high[columns / 2];  // rows 32w + 4q + {2, 3}

  // The registers are zeroed although the first wgmma ignores them: left undefined they would count as live over the
  // whole tile loop, and spill.
  EPIFUSE_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) low[i] = high[i] = 0.f;
  }

  // One k-tile; `accumulate` 0 starts a new sum. The two fragments alternate, so that both reuse the same B step.
  EPIFUSE_DEVICE void multiply(u32 stage_a, u32 stage_b, bool accumulate) {
    const u64 a = operand_descriptor(stage_a), b = operand_descriptor(stage_b);
#pragma unroll
    for (int k = 0; k < k_steps; ++k) {
      const int on = accumulate || k != 0;
      Wgmma<Operand, columns>::multiply(low, a + next_k_step * k, b + next_k_step * k, on);
      Wgmma<Operand, columns>::multiply(high, a + next_k_step * k + next_64_rows, b + next_k_step * k, on);
    }
  }

  EPIFUSE_DEVICE void pin() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) {
      ptx::pin(low[i]);
      ptx::pin(high[i]);
    }
  }

  // The element at row i and column c of the thread's part of block `block` (a constant after unrolling).
  EPIFUSE_DEVICE float at(int block, int i, int c) const {
    const int index = per_block * block + (c >> 1) * 4 + (i & 1) * 2 + (c & 1);
    return i & 2 ? high[index] : low[index];
  }

  // Moves every block one place down, so that a rolled loop over blocks always reads the same registers.
  EPIFUSE_DEVICE void shift() {
#pragma unroll
    for (int i = 0; i + per_block < columns / 2; ++i) {
      low[i] = low[i + per_block];
      high[i] = high[i + per_block];
    }
  }
};

}  // namespace epifuse
