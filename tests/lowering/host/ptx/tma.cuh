// Stand-in: copies are written down instead of made.
#pragma once

#include <vector>

#include "ptx/types.cuh"

namespace epifuse::ptx {

struct Copy {
  u32 to;
  const TensorMap* map;
  std::vector<int64_t> coordinates;
  u32 ctas = 1;
};
inline std::vector<Copy> copies;

inline void tma_load_2d(u32 to, const TensorMap& map, u32, int c0, int c1) { copies.push_back({to, &map, {c0, c1}}); }
inline void tma_load_3d(u32 to, const TensorMap& map, u32, int c0, int c1, int c2) {
  copies.push_back({to, &map, {c0, c1, c2}});
}
inline void tma_load_4d(u32 to, const TensorMap& map, u32, int c0, int c1, int c2, int c3) {
  copies.push_back({to, &map, {c0, c1, c2, c3}});
}
inline void tma_load_5d(u32 to, const TensorMap& map, u32, int c0, int c1, int c2, int c3, int c4) {
  copies.push_back({to, &map, {c0, c1, c2, c3, c4}});
}

// … and for whom.
inline void tma_load_3d_to(u32 ctas, u32 to, const TensorMap& map, u32 full, int c0, int c1, int c2) {
  tma_load_3d(to, map, full, c0, c1, c2);
  copies.back().ctas = ctas;
}
inline void tma_load_5d_to(u32 ctas, u32 to, const TensorMap& map, u32 full, int c0, int c1, int c2, int c3, int c4) {
  tma_load_5d(to, map, full, c0, c1, c2, c3, c4);
  copies.back().ctas = ctas;
}

}  // namespace epifuse::ptx
