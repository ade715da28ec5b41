// Small iterations that stores and the judge share: the blocks of a tile, and the stretches of a buffer that a range of
// places along one axis selects.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/output_walk.h"

namespace epifuse::interpreter {

// One block of a one-dimensional scaled type inside a tile.
struct TileBlock {
  static constexpr int64_t most = 128;
  int64_t count;          // elements; the last block of a dimension may be short
  int64_t index, step;    // of its elements in the tile's arrays
  int64_t first, stride;  // … and in the buffer
  int64_t scale;          // of its scale in the scales' buffer
  int64_t row, col;       // of its first element in the tile
};

template <class Visit>
void for_each_block(const OutputWalk& walk, const Tile& tile, int64_t size, Visit visit) {
  const bool down = walk.blocks_along_rows();
  const int64_t length = down ? tile.rows : tile.cols, lines = down ? tile.cols : tile.rows;
  const int64_t step = down ? Tile::pitch : 1, line_step = down ? 1 : Tile::pitch;
  const int64_t stride = down ? walk.row_stride() : walk.col_stride();
  const int64_t line_stride = down ? walk.col_stride() : walk.row_stride();
  const int64_t scale_stride = down ? walk.row_scale_stride() : walk.col_scale_stride();
  const int64_t line_scale_stride = down ? walk.col_scale_stride() : walk.row_scale_stride();
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t begin = 0; begin < length; begin += size)
      visit(TileBlock{std::min(size, length - begin), line * line_step + begin * step, step,
                      tile.first + line * line_stride + begin * stride, stride,
                      tile.first_scale + line * line_scale_stride + begin / size * scale_stride, down ? begin : line,
                      down ? line : begin});
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
