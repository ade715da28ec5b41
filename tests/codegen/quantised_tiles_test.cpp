// The sinks of scaled formats over whole tiles, on the host: which block owns which elements, where every code and
// every scale goes, and that nothing else is written. For every shape of blocks, both orders of rows and of the output,
// and every layout of scales; which random bits an element has; and what is no number.
#include "tests/codegen/quantised_checks.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Groups whose rows end within a tile, an empty one, and columns of a half that fill no block of 32.
template <class Format, SinkShape shape>
void check_groups() {
  Problem problem;
  problem.seed = 1;
  problem.rows = {150, 0, 37, 66};
  problem.columns = 72;
  const int least = shape.block_rows > 1 ? shape.block_rows : shape.transposed && code_bits<Format> == 4 ? 2 : 1;
  for (const int alignment : {least, 128}) {
    problem.alignment = alignment;
    check<Format, shape>(problem);
  }
}

// One matrix, and batches of them.
template <class Format, SinkShape shape>
void check_matrices() {
  Problem dense;
  dense.seed = 2;
  dense.rows = {202};
  dense.columns = 136;
  dense.ragged = false;
  check<Format, shape>(dense);
  Problem batches;
  batches.seed = 3;
  batches.rows = {74, 74};
  batches.columns = 40;
  batches.ragged = false;
  batches.leading = true;
  check<Format, shape>(batches);
}

template <class Format, int block_rows, int block_columns, ScaleLayout layout, bool along_rows>
void check_layout() {
  constexpr SinkShape shape = {.block_rows = block_rows,
                               .block_columns = block_columns,
                               .layout = layout,
                               .along_rows = along_rows,
                               .part_tile = block_columns == 128 ? 128 : 64};
  check_groups<Format, turned(shape, false, consecutive)>();
  check_groups<Format, turned(shape, true, consecutive)>();
  check_matrices<Format, turned(shape, false, natural)>();
  check_matrices<Format, turned(shape, true, natural)>();
}

template <class Format, int block_rows, int block_columns, bool along_rows>
void check_blocks() {
  check_layout<Format, block_rows, block_columns, ScaleLayout::rows, along_rows>();
  check_layout<Format, block_rows, block_columns, ScaleLayout::columns_tma, along_rows>();
  if constexpr (sizeof(typename Format::ScaleCode) == 1)
    check_layout<Format, block_rows, block_columns, ScaleLayout::blocked_128x4, along_rows>();
}

}  // namespace

TEST_CASE("blocks along columns") {
  check_blocks<Nvfp4, 1, 16, false>();
  check_blocks<Mxfp8, 1, 32, false>();
  check_blocks<Mxfp4, 1, 32, false>();
  check_blocks<Fp8, 1, 128, false>();
}

TEST_CASE("blocks along rows") {
  check_blocks<Nvfp4, 16, 1, true>();
  check_blocks<Mxfp8Wide, 32, 1, true>();
  check_blocks<Mxfp4, 32, 1, true>();
  check_blocks<Fp8, 128, 1, true>();
}

TEST_CASE("square blocks, whose scales are laid out along columns or along rows") {
  check_blocks<Nvfp4, 16, 16, false>();
  check_blocks<Nvfp4, 16, 16, true>();
  check_blocks<Mxfp8, 32, 32, false>();
  check_blocks<Mxfp8, 32, 32, true>();
  check_blocks<Fp8, 128, 128, false>();
  check_blocks<Fp8, 128, 128, true>();
}

TEST_CASE("random bits belong to an element's place as stored, counted from its group's start") {
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .random = true}>(groups_of(72, 2));
  check_orders<Mxfp8, SinkShape{.block_rows = 32, .along_rows = true, .random = true}>(groups_of(72, 32));
  check_orders<Mxfp8Wide, SinkShape{.block_columns = 32, .random = true, .doubled = true}>(groups_of(96));
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .random = true, .doubled = true, .piece = 1}>(groups_of(72));
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .random = true, .doubled = true, .piece = 8}>(groups_of(72));
  check_orders<Fp8, SinkShape{.block_columns = 128, .random = true, .part_tile = 128}>(groups_of(136, 1));
  constexpr SinkShape one_by_one = {.block_rows = 16, .along_rows = true, .random = true, .doubled = true, .piece = 1};
  check<Nvfp4, turned(one_by_one, true, consecutive)>(groups_of(72, 16));
  check<Nvfp4, turned(one_by_one, true, natural)>(groups_of(72));
}

TEST_CASE("batches and results of groups have random bits and scales of their own") {
  Problem batches;
  batches.seed = 5;
  batches.rows = {136, 136, 136};
  batches.columns = 72;
  batches.ragged = false;
  batches.leading = true;
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .layout = ScaleLayout::blocked_128x4, .random = true}>(batches);
  check_orders<Nvfp4, SinkShape{.block_rows = 16, .block_columns = 16, .random = true}>(batches);
  check_orders<Mxfp8, SinkShape{.block_columns = 32, .layout = ScaleLayout::columns_tma, .doubled = true, .piece = 8}>(
      batches);
}

TEST_CASE("what is no number, and zeros, stay in their block") {
  Problem problem = groups_of(72, 32);
  const float nan = __uint_as_float(formats::nan_bits), infinity = __uint_as_float(formats::infinity_bits);
  problem.specials = {{0, 70, 33, nan}, {0, 3, 8, infinity}, {1, 21, 71, -infinity}};
  for (int row = 96; row < 128; ++row)
    for (int column = 32; column < 64; ++column) problem.specials.push_back({0, row, column, row % 2 ? 0.f : -0.f});
  check_orders<Mxfp8, SinkShape{.block_columns = 32}>(problem);
  check_orders<Mxfp8Wide, SinkShape{.block_rows = 32, .along_rows = true}>(problem);
  check_orders<Mxfp4, SinkShape{.block_rows = 32, .block_columns = 32}>(problem);
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .random = true}>(problem);
  check_orders<Fp8, SinkShape{.block_columns = 128, .part_tile = 128}>(problem);
}
