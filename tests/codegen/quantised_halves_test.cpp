// The sinks of scaled formats over whole tiles, on the host, where columns are two halves that are dealt out in every
// way, and where two warpgroups share a block.
#include "tests/codegen/quantised_checks.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("halves one behind the other have blocks of their own") {
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .layout = ScaleLayout::blocked_128x4, .doubled = true}>(
      groups_of(80));
  check_orders<Mxfp8, SinkShape{.block_columns = 32, .layout = ScaleLayout::columns_tma, .doubled = true}>(
      groups_of(96));
  check_orders<Mxfp8,
               SinkShape{.block_rows = 32, .layout = ScaleLayout::blocked_128x4, .along_rows = true, .doubled = true}>(
      groups_of(72));
  check_orders<Fp8, SinkShape{.block_rows = 128, .along_rows = true, .doubled = true}>(groups_of(72));
  check_orders<Mxfp4, SinkShape{.block_rows = 32, .block_columns = 32, .doubled = true}>(groups_of(64));
  // 128 columns of each half, 64 in each of two warpgroups.
  check_orders<Fp8, SinkShape{.block_columns = 128, .doubled = true, .exchanged = true}>(groups_of(256, 4));
}

TEST_CASE("halves dealt out in pieces as wide as a block have blocks of their own") {
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .doubled = true, .piece = 16}>(groups_of(80));
  check_orders<
      Mxfp8,
      SinkShape{
          .block_columns = 32, .layout = ScaleLayout::blocked_128x4, .doubled = true, .piece = 32, .part_tile = 32}>(
      groups_of(96));
  check_orders<Nvfp4,
               SinkShape{.block_rows = 16, .block_columns = 16, .along_rows = true, .doubled = true, .piece = 64}>(
      groups_of(128, 16));
  check_orders<Fp8, SinkShape{.block_columns = 128, .doubled = true, .piece = 256, .exchanged = true}>(
      groups_of(256, 4));
}

TEST_CASE("blocks along rows go to their columns, however halves are dealt out") {
  check_orders<
      Mxfp8,
      SinkShape{.block_rows = 32, .layout = ScaleLayout::columns_tma, .along_rows = true, .doubled = true, .piece = 8}>(
      groups_of(72));
  check_orders<
      Nvfp4,
      SinkShape{
          .block_rows = 16, .layout = ScaleLayout::blocked_128x4, .along_rows = true, .doubled = true, .piece = 32}>(
      groups_of(96, 16));
  constexpr SinkShape one_by_one = {
      .block_rows = 32, .layout = ScaleLayout::blocked_128x4, .along_rows = true, .doubled = true, .piece = 1};
  check<Mxfp8, turned(one_by_one, true, consecutive)>(groups_of(72));
  check<Mxfp4, turned(one_by_one, true, consecutive)>(groups_of(72, 32));
  check<Mxfp4, turned(one_by_one, true, natural)>(groups_of(72));
}

TEST_CASE("halves that alternate by less than a block are put together first") {
  check_orders<Nvfp4, SinkShape{.block_columns = 16, .doubled = true, .piece = 1}>(groups_of(72, 2));
  check_orders<Nvfp4,
               SinkShape{.block_columns = 16, .layout = ScaleLayout::blocked_128x4, .doubled = true, .piece = 8}>(
      groups_of(40));
  check_orders<Mxfp8, SinkShape{.block_columns = 32, .layout = ScaleLayout::columns_tma, .doubled = true, .piece = 1}>(
      groups_of(72, 1));
  check_orders<Mxfp4, SinkShape{.block_columns = 32, .doubled = true, .piece = 8}>(groups_of(104, 4));
  check_orders<Nvfp4, SinkShape{.block_rows = 16, .block_columns = 16, .doubled = true, .piece = 1}>(groups_of(72, 16));
  check_orders<Mxfp8, SinkShape{.block_rows = 32,
                                .block_columns = 32,
                                .layout = ScaleLayout::blocked_128x4,
                                .along_rows = true,
                                .doubled = true,
                                .piece = 8}>(groups_of(72, 32));
}

TEST_CASE("wide blocks of two halves, and of two warpgroups") {
  constexpr ScaleLayout tma = ScaleLayout::columns_tma;
  // Put together, and by turns.
  check_orders<Fp8, SinkShape{.block_columns = 128, .doubled = true, .piece = 1}>(groups_of(72, 1));
  check_orders<Fp8, SinkShape{.block_columns = 128, .layout = tma, .doubled = true, .piece = 8}>(groups_of(136));
  check_orders<Fp8, SinkShape{.block_columns = 128, .doubled = true, .piece = 64}>(groups_of(128, 1));
  check_orders<Fp8, SinkShape{.block_rows = 128, .block_columns = 128, .doubled = true, .piece = 32}>(groups_of(96));
  check_orders<Fp8, SinkShape{.block_columns = 128, .layout = tma, .doubled = true, .piece = 16}>(groups_of(80));
  // Half of a block in each warpgroup; the second may have none of it.
  check_orders<Fp8, SinkShape{.block_columns = 128, .exchanged = true}>(groups_of(136, 1));
  check_orders<Fp8, SinkShape{.block_columns = 128, .layout = tma, .exchanged = true}>(groups_of(40));
  check_orders<Fp8, SinkShape{.block_rows = 128, .block_columns = 128, .layout = tma, .exchanged = true}>(
      groups_of(200));
  check_orders<Fp8, SinkShape{.block_columns = 128, .doubled = true, .piece = 1, .part_tile = 32, .exchanged = true}>(
      groups_of(72));
  check_orders<
      Fp8,
      SinkShape{
          .block_rows = 128, .block_columns = 128, .doubled = true, .piece = 32, .part_tile = 32, .exchanged = true}>(
      groups_of(96));
}
