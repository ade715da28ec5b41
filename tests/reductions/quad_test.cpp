// Columns in wgmma's own order, put in the order of memory (templates/atom/quad.cuh, templates/epilogue/quad.cuh).

#include "tests/reductions/reduction_support.h"

namespace epifuse {
namespace {

// Lane l of a quad has columns 8j + 2l + {0, 1}; a byte of the test says which column it is.
u32 pair(int lane, int j) {
  const u32 column = static_cast<u32>(8 * j + 2 * lane);
  return column | (column + 1) << 8;
}

TEST_CASE("bytes of a quad are put in the order of memory") {
  u32 got[32][2] = {};
  REQUIRE(host::Cta::run(32, 0, [&] {
    const int lane = ptx::thread_index_now(), l = lane & 3;
    u32 low = pair(l, 0) | pair(l, 1) << 16, high = pair(l, 2) | pair(l, 3) << 16;
    straighten_codes(low, high, l);
    got[lane][0] = low, got[lane][1] = high;
  }));
  for (int lane = 0; lane < 32; ++lane)
    for (int byte = 0; byte < 8; ++byte) {
      CAPTURE(lane, byte);
      CHECK((got[lane][byte / 4] >> (8 * (byte % 4)) & 0xff) == static_cast<u32>(8 * (lane & 3) + byte));
    }
}

TEST_CASE("two lanes exchange pairs so that each has four neighbours") {
  u32 got[32][2] = {};
  REQUIRE(host::Cta::run(32, 0, [&] {
    const int lane = ptx::thread_index_now(), l = lane & 3;
    u32 a = pair(l, 0), b = pair(l, 1);
    exchange(a, b, l & 1, 1);
    got[lane][0] = a, got[lane][1] = b;
  }));
  for (int lane = 0; lane < 32; ++lane) {
    const int l = lane & 3, first = 2 * l + 6 * (l & 1);  // as store_rows() has it
    CAPTURE(lane);
    for (int byte = 0; byte < 4; ++byte)
      CHECK((got[lane][byte / 2] >> (8 * (byte % 2)) & 0xff) == static_cast<u32>(first + byte));
  }
}

}  // namespace
}  // namespace epifuse
