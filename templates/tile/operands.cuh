// Loads one k-tile of both operands into a stage. A stage holds 128 rows of A, then for each slice the columns of B,
// one part behind the other.
//
// K-major A comes as one five-dimensional box {64 k, q:8, h:2, w:4, b:2} over rows with strides {4, 1, 32, 2}, in the
// order of atom/ownership.cuh. Such a box is checked against the end of the buffer along h only, so a tile that reaches
// past the capacity is brought by boxes of 8 rows with a traversal stride of 4, whose every row is checked: four for
// each warp that has rows there. What other warps have is what the stage held before, and counts as little as rows of
// the next group do. It is often the launch's last tile, which nothing runs beside: its boxes are kept few, and quick.
//
// K-major B comes as {64 k, e:2, l:4, j:4, J} over weight rows with strides {1, 8, 2, 32} times the distance between
// two columns of the part, and is checked along J. Where the rows of a group are no multiple of 32, blocks of eight
// weight rows are brought one by one instead, each pair checked.
//
// MN-major operands come as boxes of 64 rows (or columns) by 64 of the contraction, in their natural order, each
// checked along both.
//
// CTAs of a pair (Plan::pairs) multiply neighbouring row tiles by the same columns. They bring these by turns, a k-tile
// each, to both of them.
//
// Where the contraction lies in ragged groups, what lies behind the group must not be read: it belongs to the next one,
// and may be NaN behind the last. The copy engine clips a dimension only at the map's own end, so the map has three
// dimensions over the contraction: one that ends at 2^30, entered so that the group's end meets that end, and two that
// bring the address back, the second by wrapping around 2^64 (ragged_box).
#pragma once

#include "atom/operand.cuh"
#include "atom/ownership.cuh"
#include "ptx/sync.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/tma.cuh"
#include "tile/tile.cuh"

namespace epifuse {

constexpr int ragged_end = 1 << 30;

// Plan: tile_columns (of one consumer warpgroup, all parts), parts, slices (consumer warpgroups that share a tile),
// a_major, b_major, segments, ragged_rows, ragged_depth (the contraction lies in groups), ragged_boxes (… of any size),
// checked_pairs, piece, b_pointers, interleaved (the columns of both parts lie by turns in one MN-major weight), pairs.
// Parameters: a[segments], a_checked[segments], b[segments * parts] (interleaved: [segments]), b_group_rows,
// capacity, and with b_pointers b_maps.
template <class Plan, class Parameters>
struct Operands {
  static constexpr int part_columns = Plan::tile_columns / Plan::parts;
  static constexpr u32 part_bytes = part_columns * operand_row_bytes;
  static constexpr u32 a_bytes = tile_rows * operand_row_bytes;
  // Slabs are whole: the last one may reach over the tile's edge.
  static constexpr u32 slice_bytes =
      Plan::b_major == Major::k ? Plan::tile_columns * operand_row_bytes : slabs_of(Plan::tile_columns) * slab_bytes;
  static constexpr u32 stage_bytes = a_bytes + Plan::slices * slice_bytes;
  static_assert(part_columns % block_columns == 0, "a part has whole blocks");
  static_assert(!Plan::pairs || !(Plan::ragged_depth || Plan::checked_pairs), "a pair's columns come in whole boxes");
  static_assert(Plan::b_major == Major::k || Plan::interleaved || Plan::parts == 1 || part_columns % slab == 0,
                "a part that another lies behind has whole slabs");

  // Where a tile's operands begin, the same in all lanes.
  struct Source {
    int a_row;               // K-major: in the buffer; MN-major: in the group's matrix, or the buffer of ragged rows
    bool in_bounds;          // the whole tile lies in front of the capacity
    int a_warps;             // consumer warps that have rows there
    int b_row;               // K-major: the weight row of the first slice; MN-major: its column
    int group;               // MN-major: the matrix of a batch, or of a weight
    int depth_first, depth;  // ragged depth
    u32 rank, ctas;          // pairs: of this CTA; a bit for each whose columns are brought
  };

  static EPIFUSE_DEVICE Source source(const Parameters& p, const Tile<Plan::places>& tile) {
    const int column = dealt(first_column(tile.column_tile, 0));
    // Contiguous rows in ragged groups lie in one matrix; of a batch, and of a result, each group has its own.
    constexpr bool local = Plan::ragged_depth || (Plan::a_major == Major::mn && !Plan::ragged_rows);
    Source source;
    source.a_row = ptx::warp_uniform(local ? tile.first_row : tile.rows[0].first);
    source.in_bounds = source.a_row + tile_rows <= p.capacity;
    source.a_warps = source.in_bounds ? 4 : max(0, (p.capacity - source.a_row + warp_rows - 1) / warp_rows);
    source.group = ptx::warp_uniform(tile.group);
    if constexpr (Plan::b_major == Major::k && !Plan::b_pointers)
      source.b_row = ptx::warp_uniform(source.group * p.b_group_rows + column);
    else
      source.b_row = ptx::warp_uniform(column);
    if constexpr (Plan::ragged_depth) {
      source.depth_first = ptx::warp_uniform(tile.depth_first);
      source.depth = ptx::warp_uniform(tile.depth);
    }
    if constexpr (Plan::pairs) {
      source.rank = ptx::warp_uniform(static_cast<int>(ptx::cluster_rank()));
      source.ctas = tile.alone ? 1u << source.rank : 3u;
    }
    if constexpr (Plan::b_pointers) {
#pragma unroll
      for (int i = 0; i < Plan::segments * (Plan::interleaved ? 1 : Plan::parts); ++i)
        ptx::tensor_map_acquire(&b_map(p, i, source.group));
    }
    return source;
  }

  // What the boxes of a k-tile bring.
  static EPIFUSE_DEVICE u32 bytes(const Source& source) {
    constexpr u32 warp_bytes = warp_rows * operand_row_bytes;
    return Plan::a_major == Major::k ? stage_bytes - a_bytes + source.a_warps * warp_bytes : stage_bytes;
  }

  // By one lane: the k-tile that begins at k of a segment of the contraction.
  static EPIFUSE_DEVICE void load(const Parameters& p, u32 stage, u32 full, int segment, int k, const Source& source) {
    load_a(p, stage, full, segment, k, source);
    if constexpr (Plan::pairs)
      if (source.ctas == 3 && (k / k_tile & 1u) != source.rank) return;
#pragma unroll
    for (int slice = 0; slice < Plan::slices; ++slice) {
      // Both halves of such a weight lie together, and are brought so.
      if constexpr (Plan::interleaved) {
        load_slabs<Plan::tile_columns>(stage + a_bytes + slice * slice_bytes, b_map(p, segment, source.group), full,
                                       2 * (source.b_row + slice * part_columns), k, source);
        continue;
      }
#pragma unroll
      for (int part = 0; part < Plan::parts; ++part)
        load_b(p, stage + a_bytes + slice * slice_bytes + part * part_bytes, full, segment * Plan::parts + part, k,
               source, source.b_row + slice * part_columns);
    }
  }

  // Of the slice's tile, in every part.
  static EPIFUSE_DEVICE int first_column(int column_tile, int slice) {
    return (column_tile * Plan::slices + slice) * part_columns;
  }

 private:
  static EPIFUSE_DEVICE const TensorMap& b_map(const Parameters& p, int index, int group) {
    if constexpr (Plan::b_pointers)
      return static_cast<const TensorMap*>(p.b_maps)[index * p.groups + group];
    else
      return p.b[index];
  }

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

  // A slab of an MN-major operand: 64 places from `first`, 64 of the contraction from k.
  static EPIFUSE_DEVICE void load_slab(u32 to, const TensorMap& map, u32 full, int first, int k, int matrix,
                                       const Source& source) {
    if constexpr (Plan::ragged_boxes)
      ptx::tma_load_4d(to, map, full, first, ragged_end - source.depth + k, source.depth_first + source.depth,
                       ragged_end);
    else
      ptx::tma_load_3d(to, map, full, first, k, matrix);
  }

  // `columns` of an MN-major B.
  template <int columns>
  static EPIFUSE_DEVICE void load_slabs(u32 to, const TensorMap& map, u32 full, int first, int k,
                                        const Source& source) {
#pragma unroll
    for (int i = 0; i < slabs_of(columns); ++i) {
      const int matrix = Plan::b_pointers ? 0 : source.group;
      if constexpr (Plan::pairs)
        ptx::tma_load_3d_to(source.ctas, to + i * slab_bytes, map, full, first + i * slab, k, matrix);
      else
        load_slab(to + i * slab_bytes, map, full, first + i * slab, k, matrix, source);
    }
  }

  static EPIFUSE_DEVICE void load_a(const Parameters& p, u32 to, u32 full, int segment, int k, const Source& source) {
    if constexpr (Plan::a_major == Major::mn) {
#pragma unroll
      for (int i = 0; i < tile_rows / slab; ++i)
        load_slab(to + i * slab_bytes, p.a[segment], full, source.a_row + i * slab, k,
                  Plan::ragged_rows ? 0 : source.group, source);
    } else {
      if (source.in_bounds) {
        ptx::tma_load_5d(to, p.a[segment], full, k, 0, source.a_row, 0, 0);
        return;
      }
#pragma unroll 1
      for (int w = 0; w < source.a_warps; ++w)
#pragma unroll
        for (int b = 0; b < 2; ++b)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            ptx::tma_load_2d(to + (64 * b + 16 * w + 8 * h) * operand_row_bytes, p.a_checked[segment], full, k,
                             source.a_row + warp_rows * w + 2 * b + h);
    }
  }

  static EPIFUSE_DEVICE void load_b(const Parameters& p, u32 to, u32 full, int index, int k, const Source& source,
                                    int row) {
    const TensorMap& map = b_map(p, index, source.group);
    if constexpr (Plan::b_major == Major::mn) {
      load_slabs<part_columns>(to, map, full, row, k, source);
    } else if constexpr (!Plan::checked_pairs) {
      if constexpr (Plan::pairs)
        ptx::tma_load_5d_to(source.ctas, to, map, full, k, 0, 0, 0, row / block_columns);
      else
        ptx::tma_load_5d(to, map, full, k, 0, 0, 0, row / block_columns);
    } else {
#pragma unroll 1
      for (int eight = 0; eight < part_columns / 8; ++eight)
        ptx::tma_load_3d(to + eight * 8 * operand_row_bytes, map, full, k, 0,
                         row + (eight >> 2) * 32 + (eight & 3) * 2);
    }
  }
};

}  // namespace epifuse
