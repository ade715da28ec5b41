// A wgmma operand in shared memory: K-major rows of 128 bytes under the 128-byte swizzle, as a TMA box of 64 16-bit
// elements lays them down. Eight rows are one 1024-byte atom; the tile starts at a multiple of 1024.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

constexpr int operand_row_bytes = 128;  // one k-tile of a row: 64 elements of 16 bits
constexpr int k_tile = 64;              // elements
constexpr int k_steps = 4;              // wgmma instructions of k16 per k-tile

// Descriptor of the operand that starts at `address`: stride 1024 bytes between atoms (field 64), leading offset
// unused (1), layout 1 = 128-byte swizzle.
EPIFUSE_DEVICE u64 operand_descriptor(u32 address) {
  return static_cast<u64>((address & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Descriptor steps, in units of 16 bytes.
constexpr u64 next_k_step = 2;     // 16 elements of 16 bits
constexpr u64 next_64_rows = 512;  // 64 rows of 128 bytes

}  // namespace epifuse
