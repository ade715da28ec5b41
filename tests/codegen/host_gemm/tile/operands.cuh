// Stand-in: a stage holds the name of a tile and which of its k-tiles it is, of the rows and of each slice's columns.
// In a pair, whoever brings columns names the tile that they are for.
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/wgmma.cuh"
#include "tile/tile.cuh"

namespace epifuse {

template <int places>
u32 name_of(const Tile<places>& tile) {
  return static_cast<u32>(tile.group) << 20 | static_cast<u32>(tile.row_tile) << 10 |
         static_cast<u32>(tile.column_tile);
}

template <class Plan, class Parameters>
struct Operands {
  static constexpr int part_columns = Plan::tile_columns;
  static constexpr u32 a_bytes = 8, slice_bytes = 8;
  static constexpr u32 stage_bytes = a_bytes + Plan::slices * slice_bytes;

  struct Source {
    u32 tile;
    int depth;
    u32 rank;
    bool alone;
  };

  static Source source(const Parameters& p, const Tile<Plan::places>& tile) {
    return {name_of(tile), Plan::ragged_depth ? tile.depth : p.depth, ptx::cluster_rank(), tile.alone};
  }
  static u32 bytes(const Source&) { return stage_bytes; }
  static void load(const Parameters&, u32 stage, u32 full, int segment, int k, const Source& source) {
    const int k_tiles = (source.depth + k_tile - 1) / k_tile;
    const u32 which = static_cast<u32>(segment * k_tiles + k / k_tile);
    ptx::store_shared_64(stage, source.tile, which);
    ptx::mbarrier_complete(full, a_bytes);
    if (!Plan::pairs || source.alone)
      load_columns(stage, full, source.tile, which, source.rank);
    else if ((k / k_tile & 1u) == source.rank)
      for (u32 rank = 0; rank < 2; ++rank)
        load_columns(stage, full, source.tile + ((rank - source.rank) << 10), which, rank);
  }
  static int first_column(int column_tile, int slice) { return (column_tile * Plan::slices + slice) * part_columns; }

 private:
  static void load_columns(u32 stage, u32 full, u32 tile, u32 k_tile, u32 rank) {
    for (u32 slice = 0; slice < Plan::slices; ++slice)
      ptx::store_shared_64(ptx::address_in(rank, stage + a_bytes + slice * slice_bytes), tile, slice | k_tile << 8);
    ptx::mbarrier_complete(ptx::address_in(rank, full), Plan::slices * slice_bytes);
  }
};

}  // namespace epifuse
