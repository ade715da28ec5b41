// Stand-in: instead of a product, an accumulator gets the names of the row and the column that meet in it, by the
// layout of the instruction: lane 4q+l of warp w holds in register i row 16w + q + 8*((i>>1)&1), column 8*(i/4) + 2l +
// (i&1). Further steps of the contraction must meet the same names.
#pragma once

#include <vector>

#include "atom/operand.cuh"
#include "ptx/sync.cuh"

namespace epifuse {

// What the rows of a stage are, counted in 128 bytes from its start: K-major rows are lines, and of 64 MN-major lines
// each holds all 64 rows. Negative: nothing that counts.
inline std::vector<int> row_names;
constexpr int most_names = 4096;
constexpr float no_name = -1;

inline float names_of(int a, int b) { return static_cast<float>((a + 1) * most_names + b + 1); }

// Where a descriptor points to: the row, and the place of the contraction in the k-tile.
template <Major major>
struct Pointed {
  int row, k;
  explicit Pointed(u64 descriptor) {
    const int address = static_cast<int>((descriptor & 0x3FFF) << 4);
    row = major == Major::k ? address / operand_row_bytes : address / static_cast<int>(slab_bytes) * slab;
    k = major == Major::k ? address % operand_row_bytes / 2
                          : address % static_cast<int>(slab_bytes) / operand_row_bytes;
  }
};
inline unsigned k_places_seen = 0;  // a bit for each 16 places of the k-tile

template <class Operand, int columns, Major a_major, Major b_major>
struct Wgmma {
  static void multiply(float (&d)[columns / 2], u64 operand_a, u64 operand_b, int accumulate) {
    const Pointed<a_major> a(operand_a);
    const Pointed<b_major> b(operand_b);
    const int l = ptx::current_thread & 3, q = ptx::current_thread >> 2 & 7, w = ptx::current_thread >> 5 & 3;
    const bool sound = a.k == b.k && a.k % 16 == 0 && (accumulate || a.k == 0);
    k_places_seen |= 1u << (a.k / 16);
    for (int i = 0; i < columns / 2; ++i) {
      const float now = names_of(row_names[static_cast<size_t>(a.row + 16 * w + q + 8 * (i >> 1 & 1))],
                                 row_names[static_cast<size_t>(b.row + 8 * (i / 4) + 2 * l + (i & 1))]);
      d[i] = sound && (!accumulate || d[i] == now) ? now : no_name;
    }
  }
};

}  // namespace epifuse
