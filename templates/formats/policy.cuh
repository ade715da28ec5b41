// What the families of scaled formats share. A format is a policy, of static functions only:
//
//   Element                the type of the codes
//   ScaleCode              how a scale is stored: u8, or float
//   Setup                  what is the same for a whole tensor or group; setup(), or setup(amax) of nvfp4
//   magnitude(v)           the bits of |v|, for a maximum over the block by integer comparison: NaN is the largest
//   scale(largest, setup)  the block's scale from that maximum; 0 for a block of zeros
//   scaled(v, scale)       what is then narrowed to Element (elements.cuh)
//
// Operations are spelled by their rounding, so that no compiler contracts or reorders them: the result is defined to
// the bit (numerics.md §3, §4).
#pragma once

#include "formats/elements.cuh"

namespace epifuse::formats {

// A block with a NaN or an infinity. propagate: its scale is NaN and so is every code. te: as Transformer Engine does,
// a NaN does not count in the maximum and an infinity saturates.
enum class NonFinite { propagate, te };

template <NonFinite nonfinite>
EPIFUSE_DEVICE u32 magnitude_under(float value) {
  const u32 magnitude = __float_as_uint(value) & magnitude_bits;
  if constexpr (nonfinite == NonFinite::te) return magnitude > infinity_bits ? 0 : magnitude;
  return magnitude;
}

// code: the scale's bits as stored, a byte or those of an f32. factor: what scaled() needs of it.
struct Scale {
  u32 code;
  float factor;
};

constexpr u32 largest_f32_bits = 0x7f7fffff;

}  // namespace epifuse::formats
