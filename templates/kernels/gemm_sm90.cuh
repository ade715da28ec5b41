// The sm_90a GEMM skeleton: dense, or over ragged groups of rows, with a generated epilogue.
//
// One CTA of three warpgroups per multiprocessor stays for the whole launch. Warpgroup 0 produces: one warp fills a
// ring of stages with operand tiles, and two more feed the full-tile inputs of the epilogue. Warpgroups 1 and 2
// consume:
//   pingpong     each owns a whole tile of 128 x tile_columns; while one multiplies, the other runs its epilogue.
//   cooperative  both work on one tile of 128 x 2*tile_columns, each on its half of the columns, and drift apart by as
//                many stages as the ring holds.
//
// Each CTA takes tiles a grid apart, or those that a counter deals out to it (Plan::dynamic, pipeline/tile_deal.cuh).
//
// CTAs may work in pairs (Plan::pairs), clusters of two: each has a tile of its own, two row tiles of a group side by
// side, and their columns are brought once for both. A stage is then filled by either of them, and is empty when the
// consumers of both have read it. Where a group has an odd number of row tiles, the second CTA of its last pair runs
// along without a tile: it passes its stages on and multiplies nothing.
//
// The contraction may have two segments, whose products add up. It may lie in groups (Plan::ragged_depth): then a tile
// has a depth of its own, which may be 0.
//
// Plan      tile_columns, parts, slices (1 pingpong, 2 cooperative), stages, tile_input_stages, registers_producer,
//           registers_consumer, scratch_bytes (of each consumer warpgroup's epilogue), dynamic, pairs, Operand, and
//           what the walks (pipeline/) and tile/operands.cuh name. Parameters: depth; with two segments loop_depth,
//           that of both in whole k-tiles; dynamic: tile_counter, which is 0 when the kernel begins.
// Epilogue  slot_bytes (full-tile inputs of one block, 0: none), load_tile_inputs(p, slot, full, row, column),
//           passes (over the blocks of a tile, each with its full-tile inputs), blocks(p, first_column),
//           run(p, tile, accumulators, first_column, tile_inputs, scratch).
#pragma once

#include "epilogue/tile_inputs.cuh"
#include "pipeline/depth_walk.cuh"
#include "pipeline/tile_deal.cuh"
#include "pipeline/tile_walk.cuh"
#include "pipeline/turns.cuh"
#include "ptx/launch.cuh"
#include "tile/accumulators.cuh"
#include "tile/operands.cuh"

namespace epifuse {

constexpr int gemm_threads = 384;

// k-tiles that are still to be loaded of a tile when the counter is asked for the next: about as many as are multiplied
// while the answer is on its way.
constexpr int asked_ahead = 4;

template <bool condition, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

template <class Plan, class Epilogue, class Parameters>
struct GemmSm90 {
  using Load = Operands<Plan, Parameters>;
  using Walk = typename Choose<Plan::ragged_depth, DepthWalk<Plan, Parameters>, TileWalk<Plan, Parameters>>::type;
  using Sums = Accumulators<typename Plan::Operand, Plan::tile_columns, Plan::a_major, Plan::b_major>;
  using WorkTile = Tile<Plan::places>;
  static constexpr bool pingpong = Plan::slices == 1;
  static constexpr int ctas = Plan::pairs ? 2 : 1;  // that share stages
  static constexpr int blocks = Load::part_columns / block_columns;
  static constexpr u32 slots_bytes = Epilogue::slot_bytes * Plan::tile_input_stages;  // of one consumer warpgroup
  static constexpr u32 slots_at = Plan::stages * Load::stage_bytes;
  static constexpr u32 scratch_at = slots_at + 2 * slots_bytes;
  static constexpr u32 barriers_at = scratch_at + 2 * Plan::scratch_bytes;
  static constexpr u32 deal_at =
      barriers_at + Ring<Plan::stages>::barrier_bytes + 2 * Ring<Plan::tile_input_stages>::barrier_bytes;
  static constexpr u32 shared_bytes = deal_at + (Plan::dynamic ? 2 * DealRing::bytes : 0);
  static_assert(shared_bytes == Plan::shared_bytes, "the plan's shared-memory map is the kernel's");

  const Parameters& p;
  u32 shared;
  int worker, workers;

  EPIFUSE_DEVICE Ring<Plan::stages> operands() const { return {shared + barriers_at}; }
  EPIFUSE_DEVICE Ring<Plan::tile_input_stages> tile_ring(int consumer) const {
    return {shared + barriers_at + Ring<Plan::stages>::barrier_bytes +
            consumer * Ring<Plan::tile_input_stages>::barrier_bytes};
  }
  EPIFUSE_DEVICE u32 slots(int consumer) const { return shared + slots_at + consumer * slots_bytes; }
  EPIFUSE_DEVICE DealRing deal_ring(int consumer) const { return {shared + deal_at + consumer * DealRing::bytes}; }

  // By index: first tile of a consumer warpgroup, and the distance to its next.
  EPIFUSE_DEVICE int first_tile(int consumer) const { return worker + (pingpong ? consumer * workers : 0); }
  EPIFUSE_DEVICE int tile_step() const { return pingpong ? 2 * workers : workers; }

  EPIFUSE_DEVICE void init() const {
    if (threadIdx.x == 0) {
      operands().init((pingpong ? 4 : 8) * ctas);  // one arrival for each consumer warp that reads a stage
      for (int consumer = 0; consumer < 2; ++consumer) {
        tile_ring(consumer).init(4);
        // Read by the consumer's warps, and by the one that brings its full-tile inputs.
        if constexpr (Plan::dynamic) deal_ring(consumer).ring().init(Epilogue::slot_bytes != 0 ? 5 : 4);
      }
      ptx::fence_mbarrier_init();
#pragma unroll
      for (int i = 0; i < Plan::segments; ++i) ptx::prefetch_tensor_map(p.a[i]);
      if constexpr (!Plan::b_pointers) {
#pragma unroll
        for (int i = 0; i < Plan::segments * (Plan::interleaved ? 1 : Plan::parts); ++i)
          ptx::prefetch_tensor_map(p.b[i]);
      }
    }
    if constexpr (Plan::pairs)
      ptx::cluster_sync();
    else
      __syncthreads();
  }

  // A producer is a whole converged warp of which one lane issues: only then does the compiler keep coordinates and
  // addresses in uniform registers, where the copy instructions want them. A lone thread would move them there one by
  // one for every box, which is slower than a k-tile is multiplied.
  EPIFUSE_DEVICE void produce_operands() const {
    Walk walk(p);
    WorkTile tile;
    RingState<Plan::stages> at;
    if constexpr (Plan::dynamic) {
      TileDealer<pingpong> dealer(p.tile_counter, shared + deal_at);
      for (int index = dealer.answer(); walk.seek(index, tile); index = dealer.answer()) {
        dealer.deal(index, at);
        load_operands(tile, at, [&] { dealer.ask(); });
      }
      dealer.close();
    } else {
      for (int index = worker; walk.seek(index, tile); index += workers) load_operands(tile, at, [] {});
    }
    // The last tiles are still multiplied and stored: about as long as a launch takes to start.
    ptx::start_launch_behind();
  }

  // near_end() is called once, when the tile is almost loaded; not before, since another CTA may be free earlier.
  template <class NearEnd>
  EPIFUSE_DEVICE void load_operands(const WorkTile& tile, RingState<Plan::stages>& at, NearEnd near_end) const {
    const auto ring = operands();
    const typename Load::Source source = Load::source(p, tile);
#pragma unroll 1
    for (int segment = 0; segment < Plan::segments; ++segment)
      for (int k = 0; k < (Plan::ragged_depth ? source.depth : p.depth); k += k_tile) {
        if constexpr (Plan::dynamic) {
          const int left = (Plan::ragged_depth ? source.depth : p.depth) - k;
          if (segment + 1 == Plan::segments && left <= asked_ahead * k_tile &&
              (left > (asked_ahead - 1) * k_tile || k == 0))
            near_end();
        }
        ring.wait_empty(at);
        if (ptx::elect()) {
          if (tile.exists) {
            ring.expect(at, Load::bytes(source));
            Load::load(p, shared + at.stage * Load::stage_bytes, ring.full(at.stage), segment, k, source);
          } else {
            ring.publish(at);
          }
        }
        __syncwarp();
        at.advance();
      }
    if (Plan::ragged_depth && source.depth == 0) near_end();
  }

  EPIFUSE_DEVICE void produce_tile_inputs(int consumer) const {
    Walk walk(p);
    WorkTile tile;
    RingState<Plan::tile_input_stages> at;
    if constexpr (Plan::dynamic) {
      DealtTiles dealt(deal_ring(consumer));
      for (DealtTile next = dealt.next(); next.exists() && walk.seek(next.index, tile); next = dealt.next())
        load_tile_inputs(tile, consumer, at);
    } else {
      for (int index = first_tile(consumer); walk.seek(index, tile); index += tile_step())
        if (tile.exists) load_tile_inputs(tile, consumer, at);
    }
  }

  EPIFUSE_DEVICE void load_tile_inputs(const WorkTile& tile, int consumer,
                                       RingState<Plan::tile_input_stages>& at) const {
    const auto ring = tile_ring(consumer);
    const int row = ptx::warp_uniform(tile.rows[0].first);
    const int column = ptx::warp_uniform(Load::first_column(tile.column_tile, pingpong ? 0 : consumer));
    // The epilogue may go over the tile more than once.
#pragma unroll 1
    for (int pass = 0; pass < Epilogue::passes; ++pass)
      for (int block = 0; block < Epilogue::blocks(p, column); ++block) {
        ring.wait_empty(at);
        if (ptx::elect()) {
          ring.expect(at, Epilogue::slot_bytes);
          Epilogue::load_tile_inputs(p, slots(consumer) + at.stage * Epilogue::slot_bytes, ring.full(at.stage), row,
                                     column + block * block_columns);
        }
        __syncwarp();
        at.advance();
      }
  }

  // How far the loop over the contraction goes, for a tile. Where it is the same for all, the bound stays in the
  // constant bank: kept in a register it is the first thing to spill, into this loop.
  EPIFUSE_DEVICE int loop_depth(const WorkTile& tile) const {
    if constexpr (Plan::ragged_depth)
      return Plan::segments == 1 ? tile.depth : (tile.depth + k_tile - 1) / k_tile * k_tile * Plan::segments;
    else if constexpr (Plan::segments != 1)
      return p.loop_depth;
    else
      return p.depth;
  }
  EPIFUSE_DEVICE int k_tiles(const WorkTile& tile) const { return (loop_depth(tile) + k_tile - 1) / k_tile; }

  // By a whole warp: the stage may be filled again.
  EPIFUSE_DEVICE void release(int stage) const {
    const u32 lane = threadIdx.x & 31;
    if constexpr (Plan::pairs) {
      if (lane < ctas) operands().release_in(lane, stage);
    } else {
      if (lane == 0) operands().release(stage);
    }
  }

  // One tile, in the turn of this warpgroup. `at` goes past the tile's stages.
  EPIFUSE_DEVICE void multiply(const WorkTile& tile, int consumer, Sums& accumulators,
                               RingState<Plan::stages>& at) const {
    const auto ring = operands();
    const Turns turns{consumer};
    const u32 slice = Load::a_bytes + (pingpong ? 0 : consumer * Load::slice_bytes);
    accumulators.clear();
    if (pingpong) turns.wait();
    int previous = 0;
    for (int k = 0; k < loop_depth(tile); k += k_tile) {
      ring.wait_full(at);
      const u32 stage = shared + at.stage * Load::stage_bytes;
      ptx::wgmma_fence();
      accumulators.multiply(stage, stage + slice, k != 0);
      ptx::wgmma_commit();
      // One group stays in flight: waiting for none would leave the tensor cores idle in pingpong.
      if (k != 0) {
        ptx::wgmma_wait<1>();
        release(previous);
      }
      previous = at.stage;
      at.advance();
    }
    if (pingpong) turns.pass();
    ptx::wgmma_wait<0>();
    if (!Plan::ragged_depth || loop_depth(tile) > 0) release(previous);
    accumulators.pin();
  }

  // The same without a tile: whoever fills the other CTA's stages waits for this one too.
  EPIFUSE_DEVICE void run_along(const WorkTile& tile, int consumer, RingState<Plan::stages>& at) const {
    const Turns turns{consumer};
    if (pingpong) turns.wait();
    for (int k = 0; k < loop_depth(tile); k += k_tile) {
      operands().wait_full(at);
      __syncwarp();  // a lane that were left behind would find a later phase
      release(at.stage);
      at.advance();
    }
    if (pingpong) turns.pass();
  }

  using ConsumedInputs = TileInputs<Plan::tile_input_stages, Epilogue::slot_bytes>;

  EPIFUSE_DEVICE void finish(const WorkTile& tile, int consumer, Sums& accumulators,
                             ConsumedInputs& tile_inputs) const {
    Epilogue::run(p, tile, accumulators, Load::first_column(tile.column_tile, pingpong ? 0 : consumer), tile_inputs,
                  shared + scratch_at + consumer * Plan::scratch_bytes);
  }

  EPIFUSE_DEVICE void consume(int consumer) const {
    ConsumedInputs tile_inputs{tile_ring(consumer), slots(consumer), {}};
    const Turns turns{consumer};
    if (pingpong) turns.open();
    int tiles;
    if constexpr (Plan::dynamic)
      tiles = consume_dealt(consumer, tile_inputs);
    else
      tiles = consume_by_index(consumer, tile_inputs);
    if (pingpong) turns.close(tiles);
  }

  // Both return how many tiles the CTA had.
  EPIFUSE_DEVICE int consume_dealt(int consumer, ConsumedInputs& tile_inputs) const {
    Walk walk(p);
    WorkTile tile;
    DealtTiles dealt(deal_ring(consumer));
    DealtTile next = dealt.next();
    for (; next.exists() && walk.seek(next.index, tile); next = dealt.next()) {
      RingState<Plan::stages> at = next.begin<Plan::stages>();
      Sums accumulators;
      multiply(tile, consumer, accumulators, at);
      finish(tile, consumer, accumulators, tile_inputs);
    }
    return static_cast<int>(next.place);
  }

  EPIFUSE_DEVICE int consume_by_index(int consumer, ConsumedInputs& tile_inputs) const {
    Walk walk(p);
    WorkTile tile;
    RingState<Plan::stages> at;
    // In pingpong, the other warpgroup's stages are passed over. Where depths differ, its tiles are walked too.
    constexpr bool walks_all = pingpong && Plan::ragged_depth;
    if (pingpong && !walks_all && consumer == 1) at.skip(k_tiles(tile));
    int mine = consumer;  // walks_all: 0 in this warpgroup's turn
    for (int index = walks_all ? worker : first_tile(consumer); walk.seek(index, tile);
         index += walks_all ? workers : tile_step()) {
      if (walks_all) {
        const bool skipped = mine != 0;
        mine ^= 1;
        if (skipped) {
          at.skip(k_tiles(tile));
          continue;
        }
      }
      if (tile.exists) {
        Sums accumulators;
        multiply(tile, consumer, accumulators, at);
        if (pingpong && !walks_all) at.skip(k_tiles(tile));
        finish(tile, consumer, accumulators, tile_inputs);
      } else {
        run_along(tile, consumer, at);
        if (pingpong) at.skip(k_tiles(tile));
      }
    }
    const int total = walk.total();
    return total > worker ? (total - worker + workers - 1) / workers : 0;
  }

  // The roles are branches of one if: setmaxnreg counts on it.
  EPIFUSE_DEVICE void run() const {
    const int warpgroup = ptx::warp_uniform(threadIdx.x >> 7);
    init();
    ptx::wait_for_launches_before();
    if (warpgroup == 0) {
      ptx::give_registers<Plan::registers_producer>();
      const int warp = ptx::warp_uniform(threadIdx.x >> 5);
      if (warp == 0) produce_operands();
      if constexpr (Epilogue::slot_bytes != 0)
        if (warp == 1 || warp == 2) produce_tile_inputs(warp - 1);
    } else {
      ptx::take_registers<Plan::registers_consumer>();
      consume(warpgroup - 1);
    }
    // The other one may still arrive at barriers here.
    if constexpr (Plan::pairs) ptx::cluster_sync();
  }
};

template <class Plan, class Epilogue, class Parameters>
EPIFUSE_DEVICE void gemm_sm90(const Parameters& p) {
  extern __shared__ __align__(1024) u8 shared[];
  constexpr u32 ctas = Plan::pairs ? 2 : 1;
  const GemmSm90<Plan, Epilogue, Parameters> kernel{p, ptx::shared_address(shared), static_cast<int>(blockIdx.x / ctas),
                                                    static_cast<int>(gridDim.x / ctas)};
  kernel.run();
}

}  // namespace epifuse
