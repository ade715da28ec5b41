// Random bits of stochastic rounding, a function of the seed and of an element's logical place alone, so that results
// do not depend on tiles, schedules or packing: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3"), called once for 4 x 4 elements. The host has the same function (compiler/interpreter).
#pragma once

#include "ptx/types.cuh"

namespace epifuse::formats {

struct Words4 {
  u32 word[4];
};

EPIFUSE_DEVICE Words4 philox_4x32_10(Words4 counter, u32 key_low, u32 key_high) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 a = u64{0xd2511f53} * counter.word[0], b = u64{0xcd9e8d57} * counter.word[2];
    counter = {{static_cast<u32>(b >> 32) ^ counter.word[1] ^ key_low, static_cast<u32>(b),
                static_cast<u32>(a >> 32) ^ counter.word[3] ^ key_high, static_cast<u32>(a)}};
    key_low += 0x9e3779b9;
    key_high += 0xbb67ae85;
  }
  return counter;
}

// The bytes of the elements of rows 4i .. 4i+3 and columns 4j .. 4j+3.
struct RandomBytes {
  Words4 words;

  EPIFUSE_DEVICE u32 at(int row, int column) const { return words.word[row & 3] >> (8 * (column & 3)) & 0xff; }
  // Of columns 4j .. 4j+3 in a row.
  EPIFUSE_DEVICE u32 row(int row) const { return words.word[row & 3]; }
};

// The random bits of one output. `ordinal`: which of the kernel's outputs it is.
struct RandomSource {
  u32 key_low, key_high, offset_low, ordinal;

  // seed_and_offset: i64[2] in device memory, so that a replayed graph can go on.
  static EPIFUSE_DEVICE RandomSource load(const void* seed_and_offset, u32 ordinal) {
    const u64 seed = __ldg(static_cast<const u64*>(seed_and_offset));
    const u64 offset = __ldg(static_cast<const u64*>(seed_and_offset) + 1);
    return {static_cast<u32>(seed), static_cast<u32>(seed >> 32) ^ static_cast<u32>(offset >> 32),
            static_cast<u32>(offset), ordinal};
  }

  // row, column: on the last two axes as stored, from the start of the group where one of them is grouped; row 0 where
  // there is one axis. matrix: the group, or where neither is grouped the flattened index of the leading axes.
  EPIFUSE_DEVICE RandomBytes bytes(int row, int column, int matrix) const {
    const Words4 counter = {{static_cast<u32>(column) >> 2, static_cast<u32>(row) >> 2,
                             static_cast<u32>(matrix) | ordinal << 24, offset_low}};
    return {philox_4x32_10(counter, key_low, key_high)};
  }
};

}  // namespace epifuse::formats
