// Small iterations that stores and the judge share: the blocks of a tile, and the stretches of a buffer that a range of
// places along one axis selects.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/output_walk.h"

namespace epifuse::interpreter {

// One block of a scaled type inside a tile; the last ones along a dimension may be short.
struct TileBlock {
  int64_t row, col;    // of its first element in the tile
  int64_t rows, cols;  // elements
  int64_t scale;       // position in the scales' buffer
  GroupMaximum maximum;

  // Calls each(row, col, index in the tile's arrays) for its elements.
  template <class Each>
  void for_each_element(Each each) const {
    for (int64_t r = row; r < row + rows; ++r)
      for (int64_t c = col; c < col + cols; ++c) each(r, c, r * Tile::pitch + c);
  }
};

template <class Visit>
void for_each_block(const OutputWalk& walk, const Tile& tile, Visit visit) {
  const int64_t rows = walk.block_rows(), cols = walk.block_cols();
  for (int64_t r = 0; r < tile.rows; r += rows)
    for (int64_t c = 0; c < tile.cols; c += cols) {
      const std::vector<int64_t> place = walk.place(tile, r, c);
      visit(TileBlock{r, c, std::min(rows, tile.rows - r), std::min(cols, tile.cols - c),
                      walk.scaled()->places().position(place.data(), tile.group),
                      walk.scaled()->maximum(place.data(), tile.group)});
    }
}

// The random bits of a tile's element, nothing where it is rounded to nearest.
inline std::optional<uint32_t> random_of(const OutputWalk& walk, const Tile& tile, int64_t row, int64_t col) {
  if (!walk.scaled()->is_stochastic()) return std::nullopt;
  return walk.scaled()->random(walk.place(tile, row, col).data(), tile.group);
}

// Calls visit(first element, count) for each contiguous stretch of the buffer whose place along `axis` is in the range.
template <class Visit>
void for_each_stretch(const HostTensor& tensor, size_t axis, const StoredRange& range, Visit visit) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= tensor.extents[i];
  for (size_t i = axis + 1; i < tensor.extents.size(); ++i) inner *= tensor.extents[i];
  for (int64_t i = 0; i < outer; ++i)
    visit((i * tensor.extents[axis] + range.begin) * inner, (range.end - range.begin) * inner);
}

}  // namespace epifuse::interpreter
