// Reductions of a whole GEMM result on the host: every tile's epilogue into the workspace, as a warpgroup runs it, and
// then the launches that finish. Results are matrices given by a function of row (over all groups) and column.
#pragma once

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "tests/reductions/host/reductions.cuh"
#include "tests/support/catch.h"

namespace epifuse::test {

// Two places: the rows, and those with every group at a multiple of `aligned`.
template <Groups form, int align_0, int aligned, bool wide = false>
struct RowsPlanOf {
  static constexpr Groups groups = form;
  static constexpr bool wide_sizes = wide, pairs = false;
  static constexpr int places = 2;
  static constexpr int alignment(int place) { return place == 0 ? align_0 : aligned; }
  static constexpr bool local(int) { return false; }
};

// What the kernels' parameter structs have, all of it.
struct Numbers {
  const void* group_sizes = nullptr;
  int groups = 1, capacity = 0, batch_rows = 0, column_tiles = 1, band = 1;
  void* partials = nullptr;
  int partial_pitch = 0;
  void* out = nullptr;
  int blocks = 0, columns = 0;
  int slot = 0;  // groups in slots
};

struct Matrix {
  int rows = 0, columns = 0, halves = 1;  // columns of a half
  std::vector<float> v;                   // [half][row][column]

  float& at(int half, int row, int column) {
    return v[(static_cast<size_t>(half) * static_cast<size_t>(rows) + static_cast<size_t>(row)) *
                 static_cast<size_t>(columns) +
             static_cast<size_t>(column)];
  }
};

enum class Kind { rows, columns, tiles };

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Elements from one partial to the next along the first axis.
inline int pitch_of(Kind kind, const Matrix& m, int capacity) {
  return kind == Kind::rows ? capacity : kind == Kind::columns ? m.columns * m.halves : ceil_div(m.columns, 32);
}

// The partials of the whole result, by tiles of part_tile columns; everything that no tile writes stays NaN. What the
// accumulators hold where there is no row or no column is NaN too.
template <class Plan, Reduction reduction, RowOrder order, int part_tile, bool ragged>
std::vector<float> partials_of(Kind kind, Matrix& m, Numbers p) {
  p.column_tiles = ceil_div(m.columns, part_tile);
  p.band = 2;
  const int pitch = pitch_of(kind, m, p.capacity);
  const int count = kind == Kind::rows ? ceil_div(m.columns, 32) : ceil_div(p.capacity, 128) + 3 * p.groups;
  std::vector<float> partials(static_cast<size_t>(count) * static_cast<size_t>(pitch), NAN);
  TileWalk<Plan, Numbers> walk(p);
  Tile<Plan::places> tile{};
  for (int index = 0; walk.seek(index, tile); ++index) {
    const int first_column = tile.column_tile * part_tile;
    const auto work = [&](auto column_order) {
      const auto lane = LaneOf<order>::now();
      const OwnRowsOf<order> rows(lane, tile.rows[0]);
      const ColumnPartials<reduction, part_tile> columns_of[2] = {{256}, {256 + part_tile * 16}};
      const TilePartials<reduction, ragged> tiles{512};
      for (int block = 0; block < part_tile / 32; ++block) {
        const OwnColumnsOf<column_order()> columns(lane, first_column + 32 * block, m.columns);
        Block values[2];
        for (int half = 0; half < m.halves; ++half) {
          for (int i = 0; i < own_rows; ++i)
            for (int c = 0; c < own_columns; ++c) {
              const int row = lane.first_row() + lane.step(i), column = columns.first + columns.step(c);
              const bool exists = row < tile.valid_rows && column < m.columns;
              values[half].v[i][c] = exists ? m.at(half, tile.rows[0].first + row, column) : NAN;
            }
          if (kind != Kind::rows) clear_missing_rows(values[half], lane, tile.valid_rows);
        }
        const bool second = m.halves == 2;
        if (kind == Kind::rows) {
          RowPartials<reduction, ragged> partial(values[0], columns);
          if (second) partial.join(values[1], columns);
          partial.store(partials.data(), pitch, lane, rows, columns, first_column / 32 + block);
        } else if (kind == Kind::columns) {
          columns_of[0].put(values[0], lane, columns, block);
          if (second) columns_of[1].put(values[1], lane, columns, block);
        } else {
          float value = tiles.of(values[0], columns);
          if (second) value = Reduce<reduction>::join(value, tiles.of(values[1], columns));
          tiles.put(value, lane, block);
        }
      }
      ptx::named_barrier_sync(6, 128);
      for (int at = ptx::thread_index_now(); at < part_tile; at += 128) {
        const int column = first_column + at;
        if (kind == Kind::columns)
          for (int half = 0; half < m.halves; ++half)
            columns_of[half].flush(partials.data(), pitch, tile.row_tile, column < m.columns, half * m.columns + column,
                                   at);
        if (kind == Kind::tiles && at < part_tile / 32)
          tiles.flush(partials.data(), pitch, tile.row_tile, first_column + 32 * at < m.columns, first_column / 32 + at,
                      at);
      }
    };
    // Whole blocks of columns may also lie in wgmma's own order.
    using Consecutive = std::integral_constant<ColumnOrder, ColumnOrder::consecutive>;
    using Natural = std::integral_constant<ColumnOrder, ColumnOrder::natural>;
    const bool done = m.columns % 32 == 0 && tile.column_tile % 2 == 0
                          ? host::Cta::run(128, 0, [&] { work(Natural()); })
                          : host::Cta::run(128, 0, [&] { work(Consecutive()); });
    REQUIRE(done);
  }
  return partials;
}

// A finishing launch.
template <class Kernel>
void launch(int grid, int threads, const Kernel& kernel) {
  for (int block = 0; block < grid; ++block)
    REQUIRE(host::Cta::run(static_cast<unsigned>(threads), static_cast<unsigned>(block), kernel));
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
         });
}

}  // namespace epifuse::test
