// Codes of a quad in wgmma's column order, put in the order of memory: lane l has pairs of columns 8j + 2l + {0, 1},
// j = 0..3, and is to have the eight from 8l. Packed, they take a quarter of the shuffles that accumulators take.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

// Pairs of bytes: low has those of j = 0 and 1, high those of j = 2 and 3. Lanes that are two apart first exchange the
// words that they need, then neighbours one pair of each.
EPIFUSE_DEVICE void straighten_codes(u32& low, u32& high, int l) {
  const bool odd = l & 1, upper = l & 2;
  const u32 keep = upper ? high : low;
  const u32 got = __shfl_xor_sync(~0u, upper ? low : high, 2);
  // One is of lane 0 or 1, the other of lane 2 or 3, whichever are odd as this one is; of the two pairs in each, this
  // lane wants the second if it is odd.
  const u32 from_01 = upper ? got : keep, from_23 = upper ? keep : got;
  const u32 other = __shfl_xor_sync(~0u, __byte_perm(from_01, from_23, odd ? 0x5410 : 0x7632), 1);
  low = __byte_perm(from_01, other, odd ? 0x3254 : 0x5410);
  high = __byte_perm(from_23, other, odd ? 0x3276 : 0x7610);
}

// Lane l has a row of four bytes, and gets column l.
EPIFUSE_DEVICE u32 transpose_bytes(u32 row, int l) {
  const bool odd = l & 1, upper = l & 2;
  // Bytes 0 and 2 of the even lane go with those of the odd one, and so do 1 and 3; then halves with the lane two on.
  const u32 neighbour = __shfl_xor_sync(~0u, row, 1);
  const u32 pairs = __byte_perm(row, neighbour, odd ? 0x3715 : 0x6240);
  const u32 other = __shfl_xor_sync(~0u, pairs, 2);
  return __byte_perm(pairs, other, upper ? 0x3276 : 0x5410);
}

}  // namespace epifuse
