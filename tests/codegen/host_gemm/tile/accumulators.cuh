// Stand-in: which tile was multiplied, how often, and whether each k-tile came in its turn.
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "ptx/memory.cuh"
#include "ptx/wgmma.cuh"

namespace epifuse {

template <class Operand, int columns, Major a_major, Major b_major>
struct Accumulators {
  u32 tile;
  u32 k_tiles;
  u32 slice;
  bool in_order;

  void clear() { tile = k_tiles = slice = 0, in_order = true; }
  void multiply(u32 stage_a, u32 stage_b, bool accumulate) {
    const uint2 a = ptx::load_shared_64(stage_a), b = ptx::load_shared_64(stage_b);
    const u32 from = b.y & 0xff, k = b.y >> 8;
    if (accumulate)
      in_order = in_order && a.x == tile && from == slice;
    else
      tile = a.x, slice = from, k_tiles = 0;
    in_order = in_order && a.y == k_tiles && b.x == a.x && k == k_tiles;
    ++k_tiles;
  }
  void pin() {}
};

}  // namespace epifuse
