// Inputs that fill the tile (a residual, a saved pre-activation) come through a ring of their own: a producer thread
// for each consumer warpgroup brings, block by block, 128 rows x 32 columns of every such input, and the copy engine
// checks the bounds. A slot holds the boxes one behind the other, swizzled over the box's width.
//
// A quad reads one row at once, and eight lanes two: these must not lie in the same banks. Where a thread's rows are
// neighbours, those of two quads are four rows apart, so every fourth row goes into a box of its own (step 4), and the
// i-th rows of all threads lie one behind the other. In natural order they do so by themselves.
#pragma once

#include "atom/ownership.cuh"
#include "epilogue/storage.cuh"
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "tile/tile.cuh"

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
    ptx::fence_before_copy_engine();  // by every lane, for its own loads
    __syncwarp();
    if ((ptx::thread_index_now() & 31) == 0) ring.release(at.stage);
    at.advance();
  }
};

// Where the thread's row i lies in its slot.
template <RowOrder order>
EPIFUSE_DEVICE u32 slot_row(const LaneOf<order>& lane, int i) {
  return order == RowOrder::consecutive ? i * (tile_rows / own_rows) + lane.first_row() / own_rows
                                        : lane.first_row() + lane.step(i);
}

// Brings a box of every row, or of every fourth one from the i-th on for each i.
template <RowOrder order>
EPIFUSE_DEVICE void load_tile_input(u32 slot, const TensorMap& map, u32 full, int column, int row, u32 row_bytes) {
  if constexpr (order == RowOrder::consecutive) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i)
      ptx::tma_load_2d(slot + i * (tile_rows / own_rows) * row_bytes, map, full, column, row + i, ptx::l2_evict_first);
  } else {
    ptx::tma_load_2d(slot, map, full, column, row, ptx::l2_evict_first);
  }
}

// Address of the thread's row i of a tile, clamped into the buffer's rows.
template <class Storage, RowOrder order>
EPIFUSE_DEVICE const u8* own_place(const void* base, i64 pitch, const LaneOf<order>& lane, const Rows& rows,
                                   int all_rows, int i, int column) {
  const int row = min(rows.first + lane.first_row() + lane.step(i), all_rows - 1);
  return static_cast<const u8*>(base) + (row * pitch + column) * Storage::bytes;
}

// The thread's 4 x 8 values of a box, as they are stored: widened only where they are used, since registers are short
// while the accumulators live.
template <class Storage>
struct TileInput {
  static constexpr int words = own_columns * Storage::bytes / 4;
  u32 w[own_rows][words];

  template <RowOrder order>
  EPIFUSE_DEVICE TileInput(u32 box, const LaneOf<order>& lane) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) {
      const u32 row = slot_row(lane, i);
      const u32 at = box + row * row_bytes;
      if constexpr (Storage::bytes == 4) {
        take_4(i, 0, ptx::load_shared_128(at + (((2 * lane.l) ^ flip(row)) << 4)));
        take_4(i, 4, ptx::load_shared_128(at + (((2 * lane.l + 1) ^ flip(row)) << 4)));
      } else if constexpr (Storage::bytes == 2) {
        take_4(i, 0, ptx::load_shared_128(at + ((lane.l ^ flip(row)) << 4)));
      } else {
        const uint2 bits = ptx::load_shared_64(at + (((lane.l >> 1) ^ flip(row)) << 4) + ((lane.l & 1) << 3));
        w[i][0] = bits.x;
        w[i][1] = bits.y;
      }
    }
  }

  // The same from buffer[row, column] in global memory, for a pass without a ring. Addresses are clamped into the
  // buffer; pitch in elements, `column` the thread's first.
  template <RowOrder order>
  EPIFUSE_DEVICE TileInput(const void* base, i64 pitch, const LaneOf<order>& lane, const Rows& rows, int all_rows,
                           int column, bool exist) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) {
      const u8* at = own_place<Storage>(base, pitch, lane, rows, all_rows, i, exist ? column : 0);
      if constexpr (Storage::bytes == 1) {
        const uint2 bits = ptx::load_64(at);
        w[i][0] = bits.x;
        w[i][1] = bits.y;
      } else {
        take_4(i, 0, ptx::load_128(at));
        if constexpr (Storage::bytes == 4) take_4(i, 4, ptx::load_128(at + 16));
      }
    }
  }

  // Row i and column c are constants after unrolling.
  EPIFUSE_DEVICE float at(int i, int c) const {
    if constexpr (Storage::bytes == 4) {
      return __uint_as_float(w[i][c]);
    } else if constexpr (Storage::bytes == 2) {
      return c & 1 ? Codec<Storage>::high(w[i][c / 2]) : Codec<Storage>::low(w[i][c / 2]);
    } else {
      const u32 wide = Codec<Storage>::widen2(w[i][c / 4] >> (c & 2 ? 16 : 0));
      return c & 1 ? ptx::f16_high(wide) : ptx::f16_low(wide);
    }
  }

 private:
  static constexpr u32 row_bytes = block_columns * Storage::bytes;  // 128, 64 or 32: the span of the swizzle

  // The swizzle exchanges 16-byte chunks of a row by the row's place in its 1024-, 512- or 256-byte pattern.
  static EPIFUSE_DEVICE u32 flip(u32 row) {
    return row_bytes == 128 ? row & 7 : row_bytes == 64 ? row >> 1 & 3 : row >> 2 & 1;
  }

  EPIFUSE_DEVICE void take_4(int i, int first, uint4 bits) {
    w[i][first] = bits.x, w[i][first + 1] = bits.y, w[i][first + 2] = bits.z, w[i][first + 3] = bits.w;
  }
};

// Both halves of columns that alternate one by one (piece 1) or eight by eight, from a box of 64 columns of a 16-bit
// type: a thread's 16 neighbours of each row.
template <class Storage, int piece>
struct TileInputHalves {
  static_assert(Storage::bytes == 2, "the box's rows are the swizzle's 128 bytes");
  u32 w[own_rows][8];

  template <RowOrder order>
  EPIFUSE_DEVICE TileInputHalves(u32 box, const LaneOf<order>& lane) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) {
      const u32 row = slot_row(lane, i);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint4 bits = ptx::load_shared_128(box + row * 128 + (((2 * lane.l + k) ^ (row & 7)) << 4));
        w[i][4 * k] = bits.x, w[i][4 * k + 1] = bits.y, w[i][4 * k + 2] = bits.z, w[i][4 * k + 3] = bits.w;
      }
    }
  }

  // From global memory; `column` the first of the 16.
  template <RowOrder order>
  EPIFUSE_DEVICE TileInputHalves(const void* base, i64 pitch, const LaneOf<order>& lane, const Rows& rows, int all_rows,
                                 int column, bool exist) {
#pragma unroll
    for (int i = 0; i < own_rows; ++i) {
      const u8* at = own_place<Storage>(base, pitch, lane, rows, all_rows, i, exist ? column : 0);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint4 bits = ptx::load_128(at + 16 * k);
        w[i][4 * k] = bits.x, w[i][4 * k + 1] = bits.y, w[i][4 * k + 2] = bits.z, w[i][4 * k + 3] = bits.w;
      }
    }
  }

  EPIFUSE_DEVICE float at(int half, int i, int c) const {
    const int element = piece == 1 ? 2 * c + half : 8 * half + c;  // of the 16
    return element & 1 ? Codec<Storage>::high(w[i][element / 2]) : Codec<Storage>::low(w[i][element / 2]);
  }
};

}  // namespace epifuse
