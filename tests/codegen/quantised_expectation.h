// What a quantising sink must leave in memory, by loops over blocks and elements: which block has which elements, and
// where its scale and its codes lie in each layout (docs/language.md, S7). How a scale follows from a block's largest
// magnitude, and a code from an element, are the format policies', which have tests of their own.
#pragma once

#include "tests/codegen/quantised_tiles.h"

namespace epifuse::test {

// A format of blocks, without its type.
struct BlockFormat {
  int bits;        // of a code
  int scale_size;  // bytes
  u32 (*magnitude)(float);
  formats::Scale (*scale)(u32 largest);
  u32 (*code)(float value, const formats::Scale&);
  u32 (*random_code)(float value, const formats::Scale&, u32 random);
};

template <class Format>
BlockFormat block_format() {
  using Element = typename Format::Element;
  return {
      code_bits<Format>,
      sizeof(typename Format::ScaleCode),
      Format::magnitude,
      [](u32 largest) { return Format::scale(largest, Format::setup()); },
      [](float value, const formats::Scale& scale) { return formats::narrow<Element>(Format::scaled(value, scale)); },
      [](float value, const formats::Scale& scale, u32 random) {
        return formats::narrow_stochastic<Element>(Format::scaled(value, scale), random);
      }};
}

class Expectation {
 public:
  Expectation(const Problem& problem, const SinkShape& shape, const BlockFormat& format)
      : problem_(problem), shape_(shape), format_(format), columns_(shape.halves() * problem.columns) {}

  // Buffers as the caller gives them, and what they are afterwards.
  Stored before() const {
    Stored to;
    to.pitch = up(shape_.transposed && !problem_.leading ? code_start(groups())
                  : shape_.transposed                    ? stored(0, 1)
                                                         : columns_,
                  16) +
               16;
    const int64_t lines = problem_.leading    ? groups() * (shape_.transposed ? columns_ : problem_.rows[0])
                          : shape_.transposed ? columns_
                                              : code_start(groups());
    to.codes.assign(2 * Stored::guard + static_cast<size_t>(lines * to.pitch * format_.bits / 8), Stored::untouched);
    describe_scales(to);
    return to;
  }
  Stored after() const {
    Stored to = before();
    for (int group = 0; group < groups(); ++group) {
      const int blocks = code_rows(group) == 0 ? 0 : (code_rows(group) - 1) / shape_.block_rows + 1;
      write_padding(to, group);
      for (int R = 0; R < blocks; ++R)
        for (int C = 0; C < column_blocks(); ++C) write_block(to, group, R, C);
    }
    return to;
  }

 private:
  static int up(int64_t value, int64_t multiple) {
    return static_cast<int>((value + multiple - 1) / multiple * multiple);
  }
  int groups() const { return static_cast<int>(problem_.rows.size()); }
  int stored(int group, int alignment) const { return up(problem_.rows[group], alignment); }
  int code_rows(int group) const { return stored(group, problem_.alignment); }
  // Rows in front of a group.
  int code_start(int group) const {
    int start = 0;
    for (int g = 0; g < group; ++g) start += code_rows(g);
    return start;
  }
  int row_blocks(int group) const { return up(code_rows(group), shape_.block_rows) / shape_.block_rows; }
  int column_blocks() const { return up(columns_, shape_.block_columns) / shape_.block_columns; }
  int row_blocks_before(int group) const { return problem_.leading ? 0 : code_start(group) / shape_.block_rows; }
  int all_row_blocks() const {
    return problem_.leading ? row_blocks(0) : up(code_start(groups()), shape_.block_rows) / shape_.block_rows;
  }

  // blocked_128x4: across the blocks, and along them.
  int across(int R, int C) const { return shape_.along_rows ? C : R; }
  int along(int R, int C) const { return shape_.along_rows ? R : C; }
  int tile_rows_of(int group) const { return up(across(row_blocks(group), column_blocks()), 128) / 128; }
  int tile_columns_of(int group) const { return up(along(row_blocks(group), column_blocks()), 4) / 4; }
  int64_t tiles_before(int group) const {
    int64_t tiles = 0;
    for (int g = 0; g < group && !problem_.leading; ++g) tiles += tile_rows_of(g) * tile_columns_of(g);
    return tiles;
  }

  void describe_scales(Stored& to) const {
    int64_t elements = 0;
    // Rows that a unit of the layout has, and whether the codes' place has whole units.
    int unit = 1;
    switch (shape_.layout) {
      case ScaleLayout::rows:
        to.scale_pitch = shape_.transposed ? all_row_blocks() : column_blocks();
        elements = int64_t{all_row_blocks()} * column_blocks();
        break;
      case ScaleLayout::columns_tma:
        to.scale_pitch = up(shape_.transposed ? column_blocks() : all_row_blocks(), 4);
        elements = int64_t{to.scale_pitch} * (shape_.transposed ? all_row_blocks() : column_blocks());
        if (!shape_.transposed && !problem_.ragged) unit = 4 * shape_.block_rows;
        break;
      case ScaleLayout::blocked_128x4:
        to.scale_pitch = up(column_blocks(), shape_.along_rows ? 128 : 4) / (shape_.along_rows ? 128 : 4);
        elements = 512 * (problem_.leading ? tile_rows_of(0) * tile_columns_of(0) : tiles_before(groups()));
        unit = (shape_.along_rows ? 4 : 128) * shape_.block_rows;
        break;
    }
    to.scale_alignment = !problem_.leading && problem_.alignment % unit == 0 ? problem_.alignment : unit;
    to.scale_matrix = elements;
    const size_t bytes = static_cast<size_t>(elements * (problem_.leading ? groups() : 1) * format_.scale_size);
    to.scales.assign(2 * Stored::guard + bytes, Stored::untouched);
  }

  int64_t scale_at(const Stored& to, int group, int R, int C) const {
    const int64_t matrix = problem_.leading ? group * to.scale_matrix : 0;
    const int all_R = row_blocks_before(group) + R;
    switch (shape_.layout) {
      case ScaleLayout::rows:
        return matrix + (shape_.transposed ? int64_t{C} * to.scale_pitch + all_R : int64_t{all_R} * to.scale_pitch + C);
      case ScaleLayout::columns_tma:
        return matrix + (shape_.transposed ? int64_t{all_R} * to.scale_pitch + C : int64_t{C} * to.scale_pitch + all_R);
      case ScaleLayout::blocked_128x4: break;
    }
    const int o = across(R, C), k = along(R, C);
    const int64_t tile = tiles_before(group) + o / 128 * tile_columns_of(group) + k / 4;
    return matrix + tile * 512 + o % 32 * 16 + o % 128 / 32 * 4 + k % 4;
  }
  void write_scale(Stored& to, int group, int R, int C, u32 code) const {
    std::memcpy(to.scale_bytes() + scale_at(to, group, R, C) * format_.scale_size, &code,
                static_cast<size_t>(format_.scale_size));
  }

  // All of every tile of a group; what makes the pitch a multiple of 4, unless those are rows in groups.
  void write_padding(Stored& to, int group) const {
    int all_R = row_blocks(group), all_C = column_blocks();
    if (shape_.layout == ScaleLayout::blocked_128x4) {
      all_R = up(all_R, shape_.along_rows ? 4 : 128);
      all_C = up(all_C, shape_.along_rows ? 128 : 4);
    }
    if (shape_.layout == ScaleLayout::columns_tma && shape_.transposed) all_C = up(all_C, 4);
    if (shape_.layout == ScaleLayout::columns_tma && !shape_.transposed && !problem_.ragged) all_R = up(all_R, 4);
    if (row_blocks(group) == 0) all_R = 0;
    for (int R = 0; R < all_R; ++R)
      for (int C = 0; C < all_C; ++C) write_scale(to, group, R, C, 0);
  }

  void write_block(Stored& to, int group, int R, int C) const {
    const int first_row = R * shape_.block_rows, first_column = C * shape_.block_columns;
    const auto exists = [&](int row) { return row < problem_.rows[group]; };
    u32 largest = 0;
    const auto every = [&](const auto& what) {
      for (int row = first_row; row < first_row + shape_.block_rows && row < code_rows(group); ++row)
        for (int column = first_column; column < first_column + shape_.block_columns && column < columns_; ++column)
          what(row, column);
    };
    every([&](int row, int column) {
      if (exists(row)) largest = std::max(largest, format_.magnitude(problem_.value(group, row, column)));
    });
    const formats::Scale scale = format_.scale(largest);
    if (exists(first_row)) write_scale(to, group, R, C, scale.code);
    every([&](int row, int column) {
      write_code(to, group, row, column, exists(row) ? code(group, row, column, scale) : 0);
    });
  }
  u32 code(int group, int row, int column, const formats::Scale& scale) const {
    const float value = problem_.value(group, row, column);
    if (!shape_.random) return format_.code(value, scale);
    const auto source = formats::RandomSource::load(seed_and_offset, ordinal);
    const int first = shape_.transposed ? column : row, second = shape_.transposed ? row : column;
    return format_.random_code(value, scale, source.bytes(first, second, group).at(first, second));
  }
  void write_code(Stored& to, int group, int row, int column, u32 code) const {
    int64_t line = shape_.transposed ? column : code_start(group) + row, at = shape_.transposed ? row : column;
    if (shape_.transposed && problem_.leading)
      line += int64_t{group} * columns_;
    else if (shape_.transposed)
      at += code_start(group);
    const int64_t bit = (line * to.pitch + at) * format_.bits;
    uint8_t& byte = to.code_bytes()[bit / 8];
    const u32 mask = (1u << format_.bits) - 1;
    byte = static_cast<uint8_t>((byte & ~(mask << bit % 8)) | code << bit % 8);
  }

  const Problem& problem_;
  const SinkShape& shape_;
  const BlockFormat& format_;
  const int columns_;  // as stored
};

}  // namespace epifuse::test
