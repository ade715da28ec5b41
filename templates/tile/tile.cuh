// A tile of the output: which group it belongs to, where its rows lie, and what is contracted for it.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

// A place where the tile's rows lie in memory. Place 0 is the rows dimension itself, the others are its aligned forms.
struct Rows {
  int first;  // of the tile's row 0 in the buffer
  int limit;  // rows of the tile, the gap behind the group included, that belong to the group's part of the buffer
};

template <int places>
struct Tile {
  int group;
  int column_tile;
  int row_tile;            // counted over all groups
  int first_row;           // of the tile in its group (or batch, or result)
  int valid_rows;          // existing rows from the tile's row 0 on; may exceed the tile
  int depth_first, depth;  // where the contraction lies in groups: its first place, and how many there are
  Rows rows[places];
  // Where CTAs work in pairs: whether this one has a tile, or runs along without one; and whether the other has none.
  bool exists = true, alone = false;
};

}  // namespace epifuse
