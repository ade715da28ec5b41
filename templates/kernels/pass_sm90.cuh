// One memory pass over tiles of rows and columns: a kernel without gemm, with a generated epilogue that reads its
// full-tile inputs from global memory. A CTA is one warpgroup; several share a multiprocessor, and each takes tiles a
// grid apart.
//
// Plan      what pipeline/tile_walk.cuh names, part_columns.
// Epilogue  run(p, tile, accumulators, first_column, tile_inputs, scratch), as for kernels/gemm_sm90.cuh; there are no
//           accumulators here.
#pragma once

#include "epilogue/tile_inputs.cuh"
#include "pipeline/tile_walk.cuh"
#include "ptx/launch.cuh"

namespace epifuse {

constexpr int pass_threads = 128;

struct Nothing {};

template <class Plan, class Epilogue, class Parameters>
EPIFUSE_DEVICE void pass_sm90(const Parameters& p) {
  extern __shared__ __align__(16) u8 shared[];
  ptx::wait_for_launches_before();
  TileWalk<Plan, Parameters> walk(p);
  Tile<Plan::places> tile;
  Nothing nothing;
  for (int index = blockIdx.x; walk.seek(index, tile); index += gridDim.x)
    Epilogue::run(p, tile, nothing, tile.column_tile * Plan::part_columns, nothing, ptx::shared_address(shared));
}

}  // namespace epifuse
