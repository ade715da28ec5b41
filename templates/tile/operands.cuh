// Loads one k-tile of both operands into a stage, with rows and weight rows in the order of atom/ownership.cuh.
//
// A comes as one five-dimensional box {64 k, q:8, h:2, w:4, b:2} over rows with strides {4, 1, 32, 2}. Such a box is
// checked against the end of the buffer along h only, so a tile that reaches past the capacity is brought by 16 boxes
// of 8 rows with a traversal stride of 4, whose every row is checked.
//
// B comes as {64 k, e:2, l:4, j:4, J} over weight rows with strides {1, 8, 2, 32} times the distance between two
// columns of the part, and is checked along J. Where the rows of a group are no multiple of 32, blocks of eight weight
// rows are brought one by one instead, each pair checked.
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "tile/tile.cuh"

namespace epifuse {

// Plan: tile_columns (of one consumer warpgroup, all parts), parts, slices (consumer warpgroups that share a tile),
// checked_pairs, piece. Parameters: a, a_checked, b[parts], b_group_rows, capacity.
template <class Plan, class Parameters>
struct Operands {
  static constexpr int part_columns = Plan::tile_columns / Plan::parts;
  static constexpr u32 part_bytes = part_columns * operand_row_bytes;
  static constexpr u32 a_bytes = tile_rows * operand_row_bytes;
  static constexpr u32 slice_bytes = Plan::tile_columns * operand_row_bytes;
  static constexpr u32 stage_bytes = a_bytes + Plan::slices * slice_bytes;
  static_assert(part_columns % block_columns == 0, "a part has whole blocks");

  // Where a tile's operands begin, the same in all lanes.
  struct Source {
    int row;         // of A
    bool in_bounds;  // the whole tile lies in front of the capacity
    int weight_row;  // of B, of the first slice
  };

  static EPIFUSE_DEVICE Source source(const Parameters& p, const Tile<Plan::places>& tile) {
    const int row = ptx::warp_uniform(tile.rows[0].first);
    return {row, row + tile_rows <= p.capacity,
            ptx::warp_uniform(tile.group * p.b_group_rows + dealt(first_column(tile.column_tile, 0)))};
  }

  // By one lane.
  static EPIFUSE_DEVICE void load(const Parameters& p, u32 stage, u32 full, int k, const Source& source) {
    load_a(p, stage, full, k, source);
#pragma unroll
    for (int slice = 0; slice < Plan::slices; ++slice)
#pragma unroll
      for (int part = 0; part < Plan::parts; ++part)
        load_b(p, stage + a_bytes + slice * slice_bytes + part * part_bytes, full, k, part,
               source.weight_row + slice * part_columns);
  }

  // Of the slice's tile, in every part.
  static EPIFUSE_DEVICE int first_column(int column_tile, int slice) {
    return (column_tile * Plan::slices + slice) * part_columns;
  }

 private:
  // Pieces of a dealt-out weight are at least as wide as all slices of a tile's part: the columns of a tile are
  // neighbours, and only the tiles are dealt out.
  static EPIFUSE_DEVICE int dealt(int column) {
    if constexpr (Plan::piece != 0) {
      static_assert(Plan::piece % (part_columns * Plan::slices) == 0, "a tile lies in one piece");
      return column / Plan::piece * 2 * Plan::piece + column % Plan::piece;
    } else {
      return column;
    }
  }

  static EPIFUSE_DEVICE void load_a(const Parameters& p, u32 to, u32 full, int k, const Source& source) {
    if (source.in_bounds) {
      ptx::tma_load_5d(to, p.a, full, k, 0, source.row, 0, 0);
      return;
    }
#pragma unroll 1
    for (int box = 0; box < 16; ++box) {
      const int b = box >> 3, w = (box >> 1) & 3, h = box & 1;
      ptx::tma_load_2d(to + (64 * b + 16 * w + 8 * h) * operand_row_bytes, p.a_checked, full, k,
                       source.row + 32 * w + 2 * b + h);
    }
  }

  static EPIFUSE_DEVICE void load_b(const Parameters& p, u32 to, u32 full, int k, int part, int row) {
    if constexpr (!Plan::checked_pairs) {
      ptx::tma_load_5d(to, p.b[part], full, k, 0, 0, 0, row / block_columns);
    } else {
#pragma unroll 1
      for (int eight = 0; eight < part_columns / 8; ++eight)
        ptx::tma_load_3d(to + eight * 8 * operand_row_bytes, p.b[part], full, k, 0,
                         row + (eight >> 2) * 32 + (eight & 3) * 2);
    }
  }
};

}  // namespace epifuse
