// The accumulators of one consumer warpgroup: 128 rows by `columns`, as two m64 fragments.
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "atom/quad.cuh"
#include "atom/wgmma.cuh"
#include "ptx/wgmma.cuh"

namespace epifuse {

template <class Operand, int columns, Major a_major, Major b_major>
struct Accumulators {
  static constexpr int blocks = columns / block_columns;
  static constexpr int per_block = 16;  // registers of one block in each fragment

  float low[columns / 2];   // the thread's rows 0 and 1
  float high[columns / 2];  // 2 and 3

  // The registers are zeroed although the first wgmma ignores them: left undefined they would count as live over the
  // whole tile loop, and spill.
  EPIFUSE_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) low[i] = high[i] = 0.f;
  }

  // One k-tile; `accumulate` 0 starts a new sum. The two fragments alternate, so that both reuse the same B step.
  EPIFUSE_DEVICE void multiply(u32 stage_a, u32 stage_b, bool accumulate) {
    using Step = Wgmma<Operand, columns, a_major, b_major>;
    const u64 a = operand_descriptor<a_major>(stage_a), b = operand_descriptor<b_major>(stage_b);
#pragma unroll
    for (int k = 0; k < k_steps; ++k) {
      const int on = accumulate || k != 0;
      const u64 at_a = a + next_k_step(a_major) * k, at_b = b + next_k_step(b_major) * k;
      Step::multiply(low, at_a, at_b, on);
      Step::multiply(high, at_a + next_64_rows, at_b, on);
    }
  }

  EPIFUSE_DEVICE void pin() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) {
      ptx::pin(low[i]);
      ptx::pin(high[i]);
    }
  }

  // Columns of an MN-major operand come in wgmma's own order: lane l of a quad has columns 8j + 2l + {0, 1} of a block
  // where it is to have 8l + 2j + {0, 1}. A transposition over the quad's four lanes and j puts them right, before
  // at() is asked for the block.
  EPIFUSE_DEVICE void straighten(int block) {
    if constexpr (b_major == Major::mn) {
      const int l = ptx::thread_index_now() & 3;
      const bool odd = l & 1, upper = l & 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        straighten_4<4>(low + per_block * block + i, odd, upper);
        straighten_4<4>(high + per_block * block + i, odd, upper);
      }
    }
  }

  // The same where a weight holds the columns of both halves one by one (piece 1), eight by eight, or 32 by 32: two
  // neighbouring blocks are one block of each half. half_at() then finds what at() finds elsewhere.
  template <int piece>
  EPIFUSE_DEVICE void straighten_halves(int pair) {
    if constexpr (piece == block_columns) {
      straighten(2 * pair);
      straighten(2 * pair + 1);
    } else {
      const int l = ptx::thread_index_now() & 3;
      const bool odd = l & 1, upper = l & 2;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            // The four registers that hold columns 4h, 4h + 1, … (piece 1, k = h) or those of one parity (k)
            // afterwards.
            const int first = piece == 1 ? half_index<1>(half, i, 4 * k) : half_index<8>(half, i, k);
            constexpr int step = piece == 1 ? half_index<1>(0, 0, 1) - half_index<1>(0, 0, 0)
                                            : half_index<8>(0, 0, 2) - half_index<8>(0, 0, 0);
            straighten_4<step>(low + 2 * per_block * pair + first, odd, upper);
            straighten_4<step>(high + 2 * per_block * pair + first, odd, upper);
          }
    }
  }
  template <int piece>
  EPIFUSE_DEVICE float half_at(int pair, int half, int i, int c) const {
    if constexpr (piece == block_columns) {
      return at(2 * pair + half, i, c);
    } else {
      const int index = 2 * per_block * pair + half_index<piece>(half, i, c);
      return i & 2 ? high[index] : low[index];
    }
  }

  // The element at row i and column c of the thread's part of block `block` (a constant after unrolling).
  EPIFUSE_DEVICE float at(int block, int i, int c) const {
    const int index = per_block * block + (c >> 1) * 4 + (i & 1) * 2 + (c & 1);
    return i & 2 ? high[index] : low[index];
  }

  // Moves every block so many places down, so that a rolled loop over blocks always reads the same registers.
  template <int places = 1>
  EPIFUSE_DEVICE void shift() {
#pragma unroll
    for (int i = 0; i + places * per_block < columns / 2; ++i) {
      low[i] = low[i + places * per_block];
      high[i] = high[i + places * per_block];
    }
  }

  // The same by a branch for each block, which moves no more than the one that is wanted next. That is
  // 64 moves of a block less, but branches take longer, and hold more registers (docs/optimisations.md).
  EPIFUSE_DEVICE void take(int next) {
#pragma unroll
    for (int block = 1; block < blocks; ++block)
      if (block == next) {
        ptx::stay_a_branch();
#pragma unroll
        for (int i = 0; i < per_block; ++i) {
          low[i] = low[i + block * per_block];
          high[i] = high[i + block * per_block];
        }
      }
  }

 private:
  // Four registers, `step` apart, of four lanes.
  template <int step>
  static EPIFUSE_DEVICE void straighten_4(float* v, bool odd, bool upper) {
    exchange(v[0], v[step], odd, 1);
    exchange(v[2 * step], v[3 * step], odd, 1);
    exchange(v[0], v[2 * step], upper, 2);
    exchange(v[step], v[3 * step], upper, 2);
  }
  // Where column c of a half is, once straight, among the registers of a pair of blocks in one fragment. Piece 1: in
  // wgmma's order lane l has columns 4s + l of both halves, s = 0..7; a transposition over l and every second s leaves
  // it with 8l + c at s = 2 (c mod 4) + c / 4. Piece 8: it has columns 8t + 2l + {0, 1}, t = 0..3, and gets
  // 8l + 2t + {0, 1}.
  template <int piece>
  static EPIFUSE_DEVICE constexpr int half_index(int half, int i, int c) {
    return piece == 1 ? 4 * (2 * (c & 3) + (c >> 2)) + 2 * (i & 1) + half
                      : 4 * (4 * (c >> 2) + 2 * (c >> 1 & 1) + half) + 2 * (i & 1) + (c & 1);
  }
};

}  // namespace epifuse
