// Inputs that fill the tile (a residual, a saved pre-activation) come through a ring of their own: a producer thread
// for each consumer warpgroup brings, block by block, 128 rows x 32 columns of every such input, and the copy engine
// checks the bounds. A slot holds the boxes one behind the other, rows in their natural order, swizzled over the box's
// width.
#pragma once

#include "atom/ownership.cuh"
#include "epilogue/storage.cuh"
#include "pipeline/ring.cuh"

namespace epifuse {

template <class Storage>
constexpr u32 tile_input_bytes = tile_rows* block_columns* Storage::bytes;

// The consumer's end.
template <int stages, u32 slot_bytes>
struct TileInputs {
  Ring<stages> ring;
  u32 slots;  // shared address
  RingState<stages> at;

  // The slot of the next block; wait() before the first read, release() after the last.
  EPIFUSE_DEVICE u32 wait() const {
    ring.wait_full(at);
    return slots + at.stage * slot_bytes;
  }
  EPIFUSE_DEVICE void release() {
    __syncwarp();
    if ((ptx::thread_index_now() & 31) == 0) ring.release(at.stage);
    at.advance();
  }
};

// The thread's 4 x 8 values of a box at `box`.
template <class Storage>
EPIFUSE_DEVICE void read_tile_input(Block& block, u32 box, const Lane& lane) {
  constexpr u32 row_bytes = block_columns * Storage::bytes;  // 128, 64 or 32: the span of the swizzle
#pragma unroll
  for (int i = 0; i < own_rows; ++i) {
    const u32 row = lane.first_row() + i;
    // The swizzle exchanges 16-byte chunks of a row by the row's place in its 1024-, 512- or 256-byte pattern.
    const u32 flip = row_bytes == 128 ? row & 7 : row_bytes == 64 ? row >> 1 & 3 : row >> 2 & 1;
    const u32 at = box + row * row_bytes;
    if constexpr (Storage::bytes == 4) {
      const u32 chunk = 2 * lane.l;
      Codec<f32>::unpack8(ptx::load_shared_128(at + ((chunk ^ flip) << 4)),
                          ptx::load_shared_128(at + (((chunk + 1) ^ flip) << 4)), block.v[i]);
    } else if constexpr (Storage::bytes == 2) {
      unpack8<Storage>(ptx::load_shared_128(at + ((lane.l ^ flip) << 4)), block.v[i]);
    } else {
      unpack8<Storage>(ptx::load_shared_64(at + (((lane.l >> 1) ^ flip) << 4) + ((lane.l & 1) << 3)), block.v[i]);
    }
  }
}

}  // namespace epifuse
