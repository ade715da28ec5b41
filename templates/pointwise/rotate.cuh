// The orthonormal rotation of 16 elements (docs/language.md, V8): signs, then four stages of butterflies.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::pointwise {

// y[c] = 1/4 * sum over r of x[r], negated where bit r of `signs` is set, negated where r & c has an odd number of
// bits.
template <u32 signs>
EPIFUSE_DEVICE void rotate_16(float (&x)[16]) {
#pragma unroll
  for (int r = 0; r < 16; ++r)
    if (signs >> r & 1) x[r] = -x[r];
#pragma unroll
  for (int distance = 1; distance < 16; distance *= 2) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (i & distance) continue;
      const float a = x[i], b = x[i + distance];
      x[i] = a + b;
      x[i + distance] = a - b;
    }
  }
#pragma unroll
  for (int c = 0; c < 16; ++c) x[c] *= 0.25f;
}

}  // namespace epifuse::pointwise
