// A wgmma operand in shared memory, as TMA boxes of 64 16-bit elements lay it down under the 128-byte swizzle. Either
// way a k-tile of 64 rows (or columns) by 64 of the contraction is 8192 bytes of 128-byte lines, eight lines are one
// 1024-byte atom, and tiles start at multiples of 1024.
//   Major::k    a line is a row: 64 neighbours along the contraction
//   Major::mn   a line is one place of the contraction: 64 neighbouring rows. Only 16-bit types may be so.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

enum class Major { k = 0, mn = 1 };  // the instruction's transpose bit

constexpr int operand_row_bytes = 128;  // of a row (or column) in one k-tile
constexpr int k_tile = 64;              // elements
constexpr int k_steps = 4;              // wgmma instructions of k16 per k-tile
constexpr int slab = 64;                // rows (or columns) that lie side by side in an MN-major line
constexpr u32 slab_bytes = slab * k_tile * 2;
EPIFUSE_DEVICE constexpr int slabs_of(int columns) { return (columns + slab - 1) / slab; }

// Descriptor of the operand that starts at `address`: stride 1024 bytes between atoms (field 64), layout 1 = 128-byte
// swizzle. The leading offset is that between slabs of 64 rows; a K-major operand has no use for it (1).
template <Major major>
EPIFUSE_DEVICE u64 operand_descriptor(u32 address) {
  constexpr u64 leading = major == Major::k ? 1 : slab_bytes >> 4;
  return static_cast<u64>((address & 0x3FFFF) >> 4) | (leading << 16) | (64ull << 32) | (1ull << 62);
}

// Descriptor steps, in units of 16 bytes: 16 elements of the contraction (in a line, or 16 lines), and 64 rows.
EPIFUSE_DEVICE constexpr u64 next_k_step(Major major) { return major == Major::k ? 2 : 128; }
constexpr u64 next_64_rows = 512;

}  // namespace epifuse
