// A quantising sink of the templates (epilogue/{block_scales,quantise,scale_layout}.cuh) over all tiles of a small
// problem, on the host's block of threads, as generated epilogues call it. What it must have written is said, element
// by element, in quantised_expectation.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/codegen/host/device.h"
// Behind the words of CUDA.
#include "epilogue/quantise.cuh"
#include "epilogue/scale_layout.cuh"
#include "formats/fp8_blocks.cuh"
#include "formats/mx.cuh"
#include "formats/nvfp4.cuh"

namespace epifuse::test {

// What a sink is compiled for. R counts blocks along rows, C along columns.
struct SinkShape {
  int block_rows = 1, block_columns = 1;
  ScaleLayout layout = ScaleLayout::rows;
  bool transposed = false;
  bool along_rows = false;
  RowOrder order = RowOrder::consecutive;
  bool random = false;
  bool doubled = false;  // two halves, dealt out in pieces
  int piece = 0;         // 0: one behind the other
  int part_tile = 64;    // columns of a half that a warpgroup has
  bool exchanged = false;

  constexpr bool wide() const { return block_columns == 128; }
  constexpr bool joined() const { return doubled && block_columns > 1 && (piece == 1 || piece == 8); }
  constexpr bool shared_by_halves() const { return doubled && wide() && piece != 0 && piece < 128 && !joined(); }
  constexpr int halves() const { return doubled ? 2 : 1; }
  constexpr int scale_tiles() const { return joined() || shared_by_halves() ? 1 : halves(); }
  constexpr int scale_columns() const { return wide() ? block_columns : part_tile * (joined() ? 2 : 1); }
  constexpr int step() const { return doubled && piece == 1 && !joined() ? 2 : 1; }
};

// Groups of rows; `leading`: each is a matrix of its own, all of one size. Otherwise `ragged` groups lie one behind the
// other at multiples of `alignment`, or there is one.
struct Problem {
  std::vector<int> rows;
  int columns = 0;  // of a half
  bool ragged = true, leading = false;
  int alignment = 1;
  uint32_t seed = 0;
  // Values that are not what the seed says: of a group's row and a column as stored.
  struct Special {
    int group, row, column;
    float value;
  };
  std::vector<Special> specials;

  float value(int group, int row, int column) const {
    for (const Special& special : specials)
      if (special.group == group && special.row == row && special.column == column) return special.value;
    uint32_t bits = seed * 0x9e3779b9u + static_cast<uint32_t>((group * 4096 + row) * 4096 + column);
    for (const uint32_t factor : {0x85ebca6bu, 0xc2b2ae35u}) bits = (bits ^ bits >> 15) * factor;
    bits ^= bits >> 16;
    // Magnitudes from 2^-8 to 2^8, so that every block has a scale of its own.
    return __uint_as_float((bits & 0x807fffff) | (119 + (bits >> 23) % 16) << 23);
  }
};

// What both sides write into, and how it lies. Behind and in front of the bytes of a buffer are others that nobody may
// touch.
struct Stored {
  static constexpr size_t guard = 256;
  static constexpr uint8_t untouched = 0xa5;
  int64_t pitch = 0;  // of the codes, in elements
  int scale_pitch = 0;
  int64_t scale_matrix = 0;  // elements from the scales of a leading matrix to the next
  int scale_alignment = 1;   // of the place in which scales count rows
  std::vector<uint8_t> codes, scales;

  uint8_t* code_bytes() { return codes.data() + guard; }
  uint8_t* scale_bytes() { return scales.data() + guard; }
};

constexpr u32 seed_and_offset[4] = {0x12345678, 0x9abcdef0, 0x0fedcba9, 0x00000007};
constexpr u32 ordinal = 3;

// The rows of a tile that begins at `first` of a group, in a place of that alignment.
inline Rows rows_in_place(const Problem& problem, int group, int first, int alignment, bool local) {
  const auto stored = [&](int g) { return (problem.rows[g] + alignment - 1) / alignment * alignment; };
  int start = 0;
  for (int g = 0; g < group && !local; ++g) start += stored(g);
  return {start + first, stored(group) - first};
}

// One warpgroup's part of a tile: `first_column` in a half.
template <class Format, SinkShape s>
class SinkOfTile {
 public:
  using Code = typename Format::ScaleCode;
  using ScalesOfTile = ScaleTile<Code, s.block_rows, s.block_columns, s.scale_columns()>;
  static constexpr int blocks = s.part_tile / block_columns;
  static constexpr u32 tile_bytes =
                           (sizeof(Code) * tile_rows / s.block_rows * ScalesOfTile::columns_of_blocks + 15) / 16 * 16,
                       meeting_bytes = s.wide() ? 512 : 1024 * s.scale_columns() / 32,
                       scratch_bytes = s.scale_tiles() * (tile_bytes + meeting_bytes);

  SinkOfTile(const Problem& problem, Stored& to, int group, int first_row, int first_column, u32 scratch)
      : problem_(problem),
        to_(to),
        group_(group),
        first_row_(first_row),
        valid_rows_(problem.rows[group] - first_row),
        first_column_(first_column),
        scratch_(scratch),
        lane_(LaneOf<s.order>::now()),
        rows_(lane_, rows_in_place(problem, group, first_row, problem.alignment, problem.leading && s.transposed),
              valid_rows_) {}

  void run() {
    warpgroup_sync();  // the tile before has been read
    if constexpr (s.wide()) measure();
    for (int block = 0; block < blocks; ++block) {
      Block value[2];
      for (int half = 0; half < s.halves(); ++half) value[half] = values(block, half);
      if constexpr (s.joined())
        put<16>(JoinedValues<s.piece>{value[0], value[1]}, block, 0);
      else
        for (int half = 0; half < s.halves(); ++half) half == 0 ? put<8, 0>(value, block) : put<8, 1>(value, block);
    }
    warpgroup_sync();
    for (int tile = 0; tile < s.scale_tiles(); ++tile) flush(tile);
  }

 private:
  static constexpr bool both = s.doubled && s.scale_tiles() == 1;
  using Wide = WideScales<Format, s.wide() ? s.block_rows : 1, s.exchanged, s.order>;

  OwnColumns columns_of(int block) const {
    return OwnColumns(lane_, first_column_ + block * block_columns, problem_.columns);
  }
  // Where a column of a half is stored.
  int stored_column(int column, int half) const {
    if (!s.doubled) return column;
    if (s.piece == 0) return column + half * problem_.columns;
    return dealt_column < s.piece == 0 ? 1 : s.piece > (column, half);
  }

  // What a thread computed, whatever stands in rows and columns that do not exist; what must not reach a scale or a gap
  // is cleared.
  float computed(const OwnColumns& columns, int half, int i, int c) const {
    const int row = lane_.first_row() + lane_.step(i), column = columns.first + c;
    if (row >= valid_rows_ || column >= problem_.columns) return __uint_as_float(formats::nan_bits);
    return problem_.value(group_, first_row_ + row, stored_column(column, half));
  }
  Block values(int block, int half) const {
    const OwnColumns columns = columns_of(block);
    Block value;
    for (int i = 0; i < own_rows; ++i)
      for (int c = 0; c < own_columns; ++c) value.v[i][c] = computed(columns, half, i, c);
    if (problem_.alignment > 1 || s.block_rows > 1) clear_missing_rows(value, lane_, valid_rows_);
    if (problem_.columns % block_columns != 0 && s.block_columns > 1) clear_missing_columns(value, columns);
    return value;
  }

  u32 meeting(int tile) const { return scratch_ + s.scale_tiles() * tile_bytes + tile * meeting_bytes; }
  ScalesOfTile scales(int tile) const { return {scratch_ + tile * tile_bytes}; }

  void measure() {
    for (int tile = 0; tile < s.scale_tiles(); ++tile) {
      wide_[tile].meeting = meeting(tile);
      for (int block = 0; block < blocks; ++block)
        for (int half = 0; half < s.halves(); ++half) {
          if (s.scale_tiles() != 1 && half != tile) continue;
          const OwnColumns columns = columns_of(block);
          for (int i = 0; i < own_rows; ++i)
            for (int c = 0; c < own_columns; ++c)
              wide_[tile].add(i, lane_.first_row() + lane_.step(i) < valid_rows_ && columns.exist
                                     ? computed(columns, half, i, c)
                                     : 0.f);
        }
    }
    const int other = s.exchanged ? (ptx::thread_index_now() < 256 ? 1 : -1) * static_cast<int>(scratch_bytes) : 0;
    for (int tile = 0; tile < s.scale_tiles(); ++tile) wide_[tile].scales(Format::setup(), lane_, scales(tile), other);
  }

  template <int width, int half>
  void put(const Block (&value)[2], int block) {
    put<width, half>(OwnValues{value[half]}, block, half);
  }
  template <int width, int half = 0, class Values>
  void put(const Values& values, int block, int tile) {
    const OwnColumns columns = columns_of(block);
    const int column = s.joined() ? 2 * columns.first : stored_column(columns.first, half);
    const auto found = [&] {
      if constexpr (s.wide())
        return wide_[s.scale_tiles() == 1 ? 0 : tile].found(lane_);
      else if constexpr (s.order == RowOrder::natural && s.block_rows > 1)
        return NaturalScales<Format, s.block_rows, s.block_columns, width>(values, Format::setup(), lane_, scales(tile),
                                                                           block, meeting(tile));
      else
        return WarpScales<Format, s.block_rows, s.block_columns, width>(values, Format::setup(), lane_, scales(tile),
                                                                        block, meeting(tile));
    }();
    if constexpr (s.random) {
      constexpr int phase = s.step() == 2 ? half : 0;
      const auto source = formats::RandomSource::load(seed_and_offset, ordinal);
      const Stochastic<s.order, s.transposed, width, s.step(), phase> rounding(source, lane_, first_row_,
                                                                               column - phase, group_);
      store(values, found, rounding, columns, column);
    } else {
      store(values, found, Nearest{}, columns, column);
    }
  }
  template <class Values, class Scales, class Rounding>
  void store(const Values& values, const Scales& scales, const Rounding& rounding, const OwnColumns& columns,
             int column) {
    if constexpr (!s.transposed) {
      store_codes<Format>(values, scales, rounding, to_.code_bytes(), to_.pitch, rows_, columns, column);
    } else {
      const i64 at = column + (problem_.leading ? i64{group_} * s.halves() * problem_.columns : 0);
      if constexpr (s.order == RowOrder::consecutive)
        if (problem_.alignment % 4 == 0)
          return store_codes_transposed<Format, true, s.step()>(values, scales, rounding, to_.code_bytes(), to_.pitch,
                                                                rows_, columns, at);
      store_codes_transposed<Format, false, s.step()>(values, scales, rounding, to_.code_bytes(), to_.pitch, rows_,
                                                      columns, at);
    }
  }

  void flush(int tile) {
    // Of two warpgroups that share a block, one stores its scale.
    if (s.exchanged && first_column_ % (2 * s.part_tile) != 0) return;
    const int twice = both ? 2 : 1;
    const Rows rows = rows_in_place(problem_, group_, first_row_, to_.scale_alignment, problem_.leading);
    const bool last = !s.doubled || both || tile == 1;
    store_scales<s.layout, s.transposed, s.along_rows, Code>(
        scales(tile),
        {to_.scale_bytes(), to_.scale_pitch, problem_.leading ? group_ * to_.scale_matrix : 0, rows, first_row_,
         valid_rows_, twice * first_column_, twice * problem_.columns,
         (s.halves() * problem_.columns + s.block_columns - 1) / s.block_columns, last},
        [&](int column) { return both ? column : stored_column(column, tile); });
  }

  const Problem& problem_;
  Stored& to_;
  const int group_, first_row_, valid_rows_, first_column_;
  const u32 scratch_;
  const LaneOf<s.order> lane_;
  const OwnRowsOf<s.order> rows_;
  Wide wide_[s.scale_tiles()] = {};
};

// Every tile, one after the other in one block of threads, as a persistent kernel goes over them. Shared memory holds
// anything at first.
template <class Format, SinkShape s>
void run_tiles(const Problem& problem, Stored& to) {
  std::memset(ptx::host_shared, 0xee, sizeof ptx::host_shared);
  constexpr int slices = s.exchanged ? 2 : 1;
  const int column_tiles = (problem.columns + slices * s.part_tile - 1) / (slices * s.part_tile);
  // Threads of a warpgroup in front have another role where two of them exchange.
  host::launch(1, s.exchanged ? 384 : 128, [&] {
    if (s.exchanged && ptx::thread_index_now() < 128) return;
    const int warpgroup = s.exchanged ? ptx::thread_index_now() / 128 - 1 : 0;
    for (int group = 0; group < static_cast<int>(problem.rows.size()); ++group) {
      // Tiles cover the longest form of a group, with all the gap that belongs to it.
      int longest = 0;
      for (const int alignment : {1, problem.alignment, to.scale_alignment})
        longest = std::max(longest, rows_in_place(problem, group, 0, alignment, false).limit);
      for (int first_row = 0; first_row < longest; first_row += tile_rows)
        for (int tile = 0; tile < column_tiles; ++tile)
          SinkOfTile<Format, s>(problem, to, group, first_row, (tile * slices + warpgroup) * s.part_tile,
                                1024 + warpgroup * SinkOfTile<Format, s>::scratch_bytes)
              .run();
    }
  });
}

}  // namespace epifuse::test
