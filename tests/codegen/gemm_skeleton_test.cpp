// Who multiplies which tile when, in the GEMM skeleton (kernels/gemm_sm90.cuh): the roles of its warps run on the
// host's block of threads, over stand-ins of what moves and multiplies data (host_gemm/). By index, dealt out and in
// pairs, in both schedules, every tile comes to its end once, with its own k-tiles in their order and its own full-tile
// inputs, however the warps get ahead of each other; and no role waits for ever, which would end the program.
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/codegen/host/device.h"
// Behind the words of CUDA.
#include "kernels/gemm_sm90.cuh"
#include "tests/support/catch.h"

namespace epifuse {
namespace {

struct Parameters {
  int a[2], b[2];
  const void* group_sizes;
  void* tile_counter;
  int groups, capacity, rows, row_tiles, depth, loop_depth, column_tiles, band;
};

struct Seen {
  std::map<std::pair<u32, int>, int> tiles;  // by name and consumer warpgroup: how many warps have ended it
  std::vector<std::string> faults;

  void fault(const std::string& what) {
    if (faults.size() < 5) faults.push_back(what + " in thread " + std::to_string(threadIdx.x));
  }
};
Seen seen;

struct Shape {
  bool dynamic = false, cooperative = false, ragged_depth = false, pairs = false;
  int stages = 4, segments = 1, tile_inputs = 0, passes = 1;
};

template <Shape shape>
struct Plan {
  using Operand = bf16;
  static constexpr Major a_major = Major::k, b_major = Major::k;
  static constexpr int tile_columns = 64, parts = 1, segments = shape.segments, slices = shape.cooperative ? 2 : 1;
  static constexpr int stages = shape.stages, tile_input_stages = 2, places = 1;
  static constexpr int registers_producer = 24, registers_consumer = 240;
  static constexpr u32 scratch_bytes = 16, slot_bytes = shape.tile_inputs != 0 ? 16 : 0;
  static constexpr bool dynamic = shape.dynamic, ragged_depth = shape.ragged_depth, ragged_rows = !shape.ragged_depth;
  static constexpr bool pairs = shape.pairs;
  static constexpr bool b_pointers = false, interleaved = false, wide_sizes = false, skips_empty = false;
  static constexpr Groups groups = Groups::counts;
  static constexpr int depth_alignment = 1;
  static constexpr u32 shared_bytes =
      stages * (8 + 8 * slices + 16) + 2 * (2 * slot_bytes + scratch_bytes + 2 * 16) + (dynamic ? 96 : 0);
  static constexpr int alignment(int) { return 1; }
  static constexpr bool local(int) { return false; }
};

template <Shape shape>
struct Epilogue {
  static constexpr u32 slot_bytes = Plan<shape>::slot_bytes;
  static constexpr int passes = shape.passes;

  // A narrow last tile has fewer blocks.
  static int blocks(const Parameters&, int first_column) { return first_column == 0 ? 1 : 2; }

  template <class Tile>
  static void prefetch(const Parameters&, const Tile&, int) {}

  static void load_tile_inputs(const Parameters&, u32 slot, u32 full, int row, int column) {
    ptx::store_shared_64(slot, static_cast<u32>(row), static_cast<u32>(column));
    ptx::mbarrier_complete(full, slot_bytes);
  }

  template <class Tile, class Sums, class Inputs>
  static void run(const Parameters& p, const Tile& tile, Sums& sums, int first_column, Inputs& inputs, u32 scratch) {
    const int consumer = static_cast<int>(threadIdx.x / 128) - 1;
    const int depth = shape.ragged_depth ? tile.depth : p.depth;
    const int k_tiles = (depth + k_tile - 1) / k_tile * shape.segments;
    if (static_cast<int>(sums.k_tiles) != k_tiles) seen.fault("a tile without all of its k-tiles");
    if (k_tiles != 0 && (!sums.in_order || sums.tile != name_of(tile))) seen.fault("k-tiles of another tile");
    if (k_tiles != 0 && sums.slice != static_cast<u32>(shape.cooperative ? consumer : 0)) seen.fault("another slice");
    ptx::store_shared_32(scratch, 0);
    if constexpr (slot_bytes != 0)
      for (int pass = 0; pass < passes; ++pass)
        for (int block = 0; block < blocks(p, first_column); ++block) {
          const uint2 found = ptx::load_shared_64(inputs.wait());
          if (found.x != static_cast<u32>(tile.rows[0].first) || found.y != static_cast<u32>(first_column + 32 * block))
            seen.fault("full-tile inputs of another block");
          inputs.release();
        }
    if (threadIdx.x % 32 == 0) ++seen.tiles[{name_of(tile), consumer}];
  }
};

struct Problem {
  std::vector<int> counts;
  int depth = 200, column_tiles = 3, row_tiles = 2;  // row_tiles: of a result, where the depth is ragged
  int grid = 3;
};

int total_tiles(const Shape& shape, const Problem& problem) {
  int row_tiles = 0;
  for (const int count : problem.counts)
    row_tiles += shape.ragged_depth ? problem.row_tiles : (count + tile_rows - 1) / tile_rows;
  return row_tiles * problem.column_tiles;
}

template <Shape shape>
void check(const Problem& problem, uint32_t stalls) {
  INFO("dynamic " << shape.dynamic << ", pairs " << shape.pairs << ", cooperative " << shape.cooperative
                  << ", ragged depth " << shape.ragged_depth << ", depth " << problem.depth << ", stages "
                  << shape.stages << ", stalls " << stalls);
  u32 counter = 0;
  int capacity = 0;
  for (const int count : problem.counts) capacity += count;
  Parameters p{};
  p.group_sizes = problem.counts.data();
  p.tile_counter = &counter;
  p.groups = static_cast<int>(problem.counts.size());
  p.capacity = capacity;
  p.rows = problem.row_tiles * tile_rows;
  p.row_tiles = problem.row_tiles;
  p.depth = problem.depth;
  p.loop_depth = (problem.depth + k_tile - 1) / k_tile * k_tile * shape.segments;
  p.column_tiles = problem.column_tiles;
  p.band = 2;

  // Blocks run one after the other, so who gets which tile is drawn before.
  const int total = total_tiles(shape, problem);
  std::mt19937 random(stalls);
  std::vector<std::vector<u32>> claims(static_cast<size_t>(problem.grid));
  for (int tile = 0; tile < total; ++tile)
    claims[random() % static_cast<uint32_t>(problem.grid)].push_back(static_cast<u32>(tile));
  std::vector<size_t> asked(claims.size());
  ptx::host_increment = [&](u32&) {
    const size_t at = asked[blockIdx.x]++;
    return at < claims[blockIdx.x].size() ? claims[blockIdx.x][at] : static_cast<u32>(total) + blockIdx.x;
  };

  seen = {};
  host::Block::stalls = stalls;
  constexpr int ctas = shape.pairs ? 2 : 1;
  int last = -1;  // pair, or block
  host::launch(
      static_cast<unsigned>(problem.grid * ctas), gemm_threads,
      [&] {
        const int worker = static_cast<int>(blockIdx.x) / ctas;
        if (std::exchange(last, worker) != worker) ptx::host_barriers.clear();  // by its first thread
        const u32 shared = ptx::address_in(ptx::cluster_rank(), 0);
        const GemmSm90<Plan<shape>, Epilogue<shape>, Parameters> kernel{p, shared, worker, problem.grid};
        kernel.run();
      },
      ctas);
  host::Block::stalls = 0;

  CHECK(seen.faults == std::vector<std::string>{});
  CHECK(seen.tiles.size() == static_cast<size_t>(total) * (shape.cooperative ? 2 : 1));
  for (const auto& [tile, warps] : seen.tiles) CHECK(warps == 4);
  if (shape.dynamic)  // each block learns once that there is no more
    for (size_t block = 0; block < claims.size(); ++block) CHECK(asked[block] == claims[block].size() + 1);
}

template <Shape shape>
void check_problems() {
  const std::vector<Problem> problems = {
      {{130, 0, 300, 1}, 200, 3, 2, 3}, {{0, 0, 0}, 64, 2, 1, 2},
      {{500, 64}, 64, 2, 1, 1},  // one k-tile for each tile: more tiles than stages are on their way
      {{20, 700}, 1000, 1, 3, 2},       {{100}, 130, 1, 1, 4},  // fewer tiles than blocks
  };
  for (const Problem& problem : problems)
    for (const uint32_t stalls : {0u, 1u, 2u, 3u}) check<shape>(problem, stalls);
}

TEST_CASE("pingpong: tiles by index") {
  check_problems<Shape{}>();
  check_problems<Shape{.stages = 2, .tile_inputs = 1}>();
  check_problems<Shape{.ragged_depth = true, .segments = 2}>();
}

TEST_CASE("pingpong: tiles are dealt out") {
  check_problems<Shape{.dynamic = true}>();
  check_problems<Shape{.dynamic = true, .stages = 2, .tile_inputs = 1, .passes = 2}>();
  check_problems<Shape{.dynamic = true, .stages = 6, .segments = 2, .tile_inputs = 1}>();
  check_problems<Shape{.dynamic = true, .ragged_depth = true}>();
  check_problems<Shape{.dynamic = true, .ragged_depth = true, .stages = 3, .segments = 2, .tile_inputs = 1}>();
}

// Groups of odd numbers of row tiles leave the second block of a pair without one.
TEST_CASE("pairs: tiles by index") {
  check_problems<Shape{.pairs = true}>();
  check_problems<Shape{.pairs = true, .stages = 2, .tile_inputs = 1}>();
  check_problems<Shape{.pairs = true, .stages = 3, .segments = 2, .tile_inputs = 1, .passes = 2}>();
  check_problems<Shape{.cooperative = true, .pairs = true}>();
  check_problems<Shape{.cooperative = true, .pairs = true, .stages = 2, .tile_inputs = 1}>();
}

TEST_CASE("cooperative: tiles by index") {
  check_problems<Shape{.cooperative = true, .tile_inputs = 1}>();
  check_problems<Shape{.cooperative = true, .ragged_depth = true}>();
}

TEST_CASE("cooperative: tiles are dealt out") {
  check_problems<Shape{.dynamic = true, .cooperative = true}>();
  check_problems<Shape{.dynamic = true, .cooperative = true, .stages = 2, .tile_inputs = 1}>();
  check_problems<Shape{.dynamic = true, .cooperative = true, .ragged_depth = true, .segments = 2, .tile_inputs = 1}>();
}

}  // namespace
}  // namespace epifuse
