// The order of the tiles inside a group: in bands of `band` column tiles, rows first inside a band, so that the tiles
// that run at one time share operand rows and columns in L2.
#pragma once

#include "ptx/types.cuh"

namespace epifuse {

struct RasterPlace {
  int row_tile, column_tile;
};

EPIFUSE_DEVICE RasterPlace raster(int index, int row_tiles, int column_tiles, int band) {
  const int band_tiles = band * row_tiles;
  const int which = index / band_tiles, in_band = index - which * band_tiles;
  const int width = min(band, column_tiles - which * band);
  const int row_tile = in_band / width;
  return {row_tile, which * band + in_band - row_tile * width};
}

}  // namespace epifuse
