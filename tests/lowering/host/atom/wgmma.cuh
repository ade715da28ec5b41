// Stand-in: instead of a product, an accumulator gets the names of the two rows of shared memory that meet in it, by
// the layout of the instruction: lane 4q+l of warp w holds in register i row 16w + q + 8*((i>>1)&1), column 8*(i/4) +
// 2l + (i&1).
#pragma once

#include <vector>

#include "ptx/sync.cuh"

namespace epifuse {

// What each 128-byte row of shared memory holds; -1: zeros.
inline std::vector<int> row_names;
constexpr int most_names = 4096;

inline float names_of(int a, int b) { return static_cast<float>((a + 1) * most_names + b + 1); }

template <class Operand, int columns>
struct Wgmma {
  static void multiply(float (&d)[columns / 2], u64 operand_a, u64 operand_b, int) {
    const int a = static_cast<int>((operand_a & 0x3FFF) << 4) / 128,
              b = static_cast<int>((operand_b & 0x3FFF) << 4) / 128;
    const int l = ptx::current_thread & 3, q = ptx::current_thread >> 2 & 7, w = ptx::current_thread >> 5 & 3;
    for (int i = 0; i < columns / 2; ++i)
      d[i] = names_of(row_names[static_cast<size_t>(a + 16 * w + q + 8 * (i >> 1 & 1))],
                      row_names[static_cast<size_t>(b + 8 * (i / 4) + 2 * l + (i & 1))]);
  }
};

}  // namespace epifuse
