// A tile of the output: which group it belongs to and where its rows lie.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

// A place where the tile's rows lie in memory. Place 0 is the grouped dimension itself, the others are its aligned
// forms.
struct Rows {
  int first;  // of the tile's row 0 in the buffer
  int limit;  // rows of the tile, the gap behind the group included, that belong to the group's part of the buffer
};

template <int places>
struct Tile {
  int group;
  int column_tile;
  int valid_rows;  // existing rows from the tile's row 0 on; may exceed the tile
  Rows rows[places];
};

}  // namespace epifuse
