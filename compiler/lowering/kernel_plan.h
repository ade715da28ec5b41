// KernelPlan: every decision about one kernel on one target, in plain structs that print themselves (--emit=plan). The
// emitter spells it, the runtime launches its recipe; neither decides anything.
//
// The result tile of the GEMM is seen as `parts` tiles of equal width: one, or the two halves that `split` takes its
// columns apart into. Epilogue values are scalar expressions over accumulators and inputs at one row and one column of
// a part; sinks put blocks of values into outputs.
#pragma once

#include <string>
#include <vector>

#include "base/launch_recipe.h"
#include "base/target.h"
#include "compiler/ir/graph.h"
#include "compiler/lowering/pointwise_plan.h"

namespace epifuse::lowering {

constexpr int tile_rows = 128;
constexpr uint32_t thread_rows = 4;  // of a tile, by one thread
constexpr int block_columns = 32;
constexpr int block_rows = 32;  // of a transposed MX output
constexpr int k_tile = 64;
constexpr int slab_columns = 64;                 // of an MN-major operand, side by side in 128 bytes
constexpr uint32_t most_parameter_bytes = 4096;  // of a launch

// What the GEMM is, decided once by classify_gemm; later stages read this name, not the dimensions.
//   none          the plan has pointwise launches instead (pointwise_plan.h)
//   dense         one matrix of rows
//   batched       as many as the batch dimension says, of the same number of rows each
//   ragged_rows   rows in groups whose sizes the device knows
//   ragged_depth  the contracted dimension lies in groups (or batches): one result for each
enum class GemmForm { none, dense, batched, ragged_rows, ragged_depth };

// How an operand lies in memory, and so in shared memory: the contraction contiguous, or its rows (or columns).
enum class Major { k, mn };

struct GemmOperand {
  ir::InputId input = -1;
  int half = -1;  // the half of its last dimension that it is; -1: all of it
  Major major = Major::k;
  bool gives_rows = false;
};

// How the columns of a doubled dimension belong to its two halves (language.md V4).
//   halves       first half, then second half
//   alternating  one by one
//   eights       eight by eight
//   blocks       32 by 32
//   pieces       in pieces at least as wide as a tile
enum class Deal { halves, alternating, eights, blocks, pieces };

// One loop over the contraction; in a plan of Family::pass there is none, nor are there operands. A kernel with two
// gemms has either two weights that share their rows operand (the results are the two parts), or two segments, when
// only the sum of both results is wanted: they are contracted one behind the other into the same accumulators.
struct Gemm {
  GemmForm form = GemmForm::none;
  std::vector<ir::NodeId> nodes;  // one, or two
  int segments = 1;
  int weights = 1;
  std::vector<GemmOperand> a;  // [segments], the operands that give the rows
  std::vector<GemmOperand> b;  // [segments * weights], those that give the columns
  Storage operand = Storage::bf16;
  ir::Extent rows;           // M, or a dense dimension; of one batch
  ir::Extent depth;          // contracted, in one segment
  ir::Extent groups;         // the dimension that counts the groups or batches; a number where there is one of them
  ir::Extent columns;        // of a part
  int parts = 1;             // accumulators: 2 for a product whose columns are split, and for two weights
  int64_t piece = 0;         // how doubled columns (twice `columns`) are dealt out; 0: halves
  int64_t part_columns = 0;  // the number of `columns`

  bool grouped() const { return form != GemmForm::none && form != GemmForm::dense; }
  bool split_weight() const { return parts == 2 && weights == 1; }  // both parts lie in one weight
};

// The dimension whose groups the device looks up, or that batches have alike: the rows, or the contraction.
inline const ir::Extent& grouped_extent(const Gemm& gemm) {
  return gemm.form == GemmForm::ragged_depth ? gemm.depth : gemm.rows;
}
// Whether the groups' sizes are read on the device; otherwise they are batches of one size.
bool is_ragged(const ir::Graph& graph, const Gemm& gemm);
// Whether each of them has a slot of rows.
bool in_slots(const ir::Graph& graph, const Gemm& gemm);
// Every group starts at a multiple of this many places.
int64_t group_alignment(const ir::Graph& graph, const Gemm& gemm);

// A place where rows lie in memory: place 0 is the rows dimension itself, one group behind the other; the others are
// its aligned forms, or (local) each group's rows counted from 0, for transposed outputs of batches.
struct Place {
  ir::DimId dim = -1;
  int64_t alignment = 1;
  bool local = false;
};

enum class Broadcast {
  scalar,  // one value
  group,   // one for each group
  row,     // one for each row
  column,  // one for each column (and group, where the tensor has the group dimension)
  tile,    // one for each row and column
};

struct EpilogueInput {
  ir::InputId input = -1;
  Broadcast broadcast = Broadcast::scalar;
  bool per_group = false;  // column: the tensor has a leading group dimension
  bool pointers = false;   // ... which selects a buffer of its own
  bool doubled = false;    // over the columns of both halves
  int part = 0;            // doubled: which half
};

// A scalar expression node; arguments come before their users. A hadamard is one element from 16 of its argument: the
// argument's block is made, and rotated in registers, before the values that need it, which see it like an input.
struct EpilogueNode {
  enum class Kind { accumulator, input, param, number, map, hadamard } kind = Kind::number;
  ir::Op op = ir::Op::number;  // map
  Storage to = Storage::f32;   // cast
  double number = 0;
  int index = 0;            // accumulator: part; input: into Epilogue::inputs; param: ParamId
  bool along_rows = false;  // hadamard; else along the columns of a part
  uint32_t signs = 0;       // hadamard
  std::vector<int> args;
};

//   rows, transposed, mx_rows, mx_transposed   one element (or code) for each row and column
//   quantised       codes and scales of any scaled type, in any order and layout; the mx kinds are its fast forms, of
//                   blocks of 32 along the last dimension, e8m0 scales in rows, rule `up`, rounded to nearest
//   reduce_rows     over the columns: one value for each row. Partials: one for each row and 32 columns of a part
//   reduce_columns  over rows (of a group, or of all): one value for each column. Partials: one for each column and
//                   tile of 128 rows
//   reduce_tiles    over rows and columns: one value for each group, or one. Partials: one for each tile of 128 rows
//   and
//                   32 columns of a part
// Partials go to the workspace, f32, and a finishing launch adds them in their order, so that a sum does not depend on
// the schedule: rows are counted from the group's start in 128s, columns of a part in 32s.
enum class SinkKind { rows, transposed, mx_rows, mx_transposed, quantised, reduce_rows, reduce_columns, reduce_tiles };

constexpr bool is_reduction(SinkKind kind) {
  return kind == SinkKind::reduce_rows || kind == SinkKind::reduce_columns || kind == SinkKind::reduce_tiles;
}
constexpr bool is_mx(SinkKind kind) { return kind == SinkKind::mx_rows || kind == SinkKind::mx_transposed; }

// How the blocks of a quantised sink lie among rows and columns.
struct Quantised {
  int block_rows = 1, block_columns = 1;
  bool transposed = false;        // codes: rows are the last dimension
  bool along_rows = false;        // blocks run along rows; of square blocks, so are the scales laid out
  bool joined = false;            // two halves that alternate by less than a block are put together first
  bool shared_by_halves = false;  // blocks of 128 have columns of both halves, stored one after the other
  int scale_place = 0;            // where rows begin with whole scales, or with whole tiles of them
  int amax = -1;                  // node of the epilogue: the largest magnitude of the whole tensor or group; -1: none
  // By the schedule. Blocks of 128 columns: each of two cooperative warpgroups has half of them.
  bool exchanged = false;
  int meeting = 0;  // where maxima meet that no warp has alone, bytes from the epilogue's; one region for each value

  bool wide() const { return block_columns == tile_rows; }  // 128 columns
  // Whether a wide block has columns of both halves.
  bool of_both_halves() const { return wide() && (joined || shared_by_halves); }
  // Tiles of scales of a sink with so many values.
  int scale_tiles(size_t values) const { return joined || shared_by_halves ? 1 : static_cast<int>(values); }
  // Whether no warp has a whole block. In natural order a warp has 16 neighbouring rows.
  bool meets(bool natural_rows) const {
    return wide() || block_rows == tile_rows || (natural_rows && block_rows == 32);
  }
};

// One output. `values` has one node, or one for each half when the value lies over doubled columns.
struct Sink {
  int output = -1;  // into Graph::outputs
  SinkKind kind = SinkKind::rows;
  std::vector<int> values;
  int place = 0;
  bool accumulate = false;  // +=
  // Reductions: what they do, and whether the groups are kept (reduce_columns, reduce_tiles).
  ir::Reduction reduction = ir::Reduction::none;
  bool per_group = false;
  bool pointers = false;  // the leading dimension selects a buffer of its own
  // mx kinds: scale bytes that are stored at once. Along rows 1, 2 or 4 blocks of a row; transposed 1, or the 4 blocks
  // of a column, which meet in shared memory at `scratch` (bytes from the epilogue's; one region for each value).
  // reduce_columns, reduce_tiles: the four warps' partials meet at `scratch`. quantised: the tile's scales lie there.
  int gathered_scales = 1;
  int scratch = 0;
  Quantised quantised;
};

// Whether what an output says of a group is said of it alone (in a kernel of groups).
inline bool keeps_groups(const Sink& sink) {
  return !is_reduction(sink.kind) || sink.kind == SinkKind::reduce_rows || sink.per_group;
}

struct Epilogue {
  std::vector<EpilogueNode> nodes;
  std::vector<EpilogueInput> inputs;
  std::vector<Sink> sinks;  // in the order in which they run
};

// Whether some output has blocks as wide as a tile, which a pass of its own over the tile measures.
bool has_wide_blocks(const Epilogue& epilogue);

//   gemm       the sm_90a skeleton (templates/kernels/gemm_sm90.cuh)
//   pass       one pass over tiles without a gemm (templates/kernels/pass_sm90.cuh)
//   pointwise  the launches of KernelPlan::pointwise
enum class Family { gemm, pass, pointwise };

constexpr int usual_band = 8, most_band = 1024;

// In which order a launch goes about its tiles.
struct TileOrder {
  int band = usual_band;  // column tiles that a wave covers before it goes down
  // Tiles are dealt out by a counter on the device, to whoever is free; else by index, a grid apart.
  bool dynamic = false;
  // Two CTAs side by side work on neighbouring row tiles, and bring the columns once for both (a cluster, multicast).
  bool pairs = false;

  bool operator==(const TileOrder&) const = default;
};

// How a plan's main launch goes about its tiles; pointwise launches have nothing of it.
struct Schedule : TileOrder {
  Family family = Family::gemm;
  bool cooperative = false;  // false: pingpong
  int tile_columns = 128;    // of one consumer warpgroup, all parts
  int stages = 6;
  int usual_stages = 6;       // what the planner takes for such a tile
  int tile_input_stages = 1;  // slots of the ring for full-tile inputs, for each consumer warpgroup
  bool rolled = true;         // the epilogue's loop over blocks is a loop
  int blocks_at_once = 1;     // … which takes so many blocks, one behind the other
  bool takes_blocks = false;  // … which fetches the next block's accumulators, instead of moving all of them down
  bool leaves_out_blocks = false;  // … and ends with the output's columns
  bool places_anew = false;        // … and finds out for each block where the thread stands: no registers keep it
  bool separate = false;  // values that share operations are computed one by one all the same, which needs the fewest
                          // registers and the most instructions
  int registers_producer = 24, registers_consumer = 240;
  int ctas = 1;           // of a multiprocessor
  TileOrder usual_order;  // what the planner takes for such a tile

  const TileOrder& order() const { return *this; }
  int slices() const { return cooperative ? 2 : 1; }
  int cluster() const { return pairs ? 2 : 1; }  // CTAs
};

// A piece of the dynamic shared memory; `live` names the roles that use it, all of them for the whole kernel.
struct SharedBuffer {
  std::string name;
  int offset = 0;
  int bytes = 0;
  bool swizzled = false;  // the copy engine writes it in its 1024-byte pattern
};

// A stretch of the caller's workspace, at a multiple of workspace_alignment.
struct WorkspaceRegion {
  std::string name;
  IntExpr offset, bytes;
};

struct KernelPlan {
  std::string kernel;
  Target target;
  Gemm gemm;
  std::vector<Place> places;
  Epilogue epilogue;
  Schedule schedule;
  Deal deal = Deal::halves;
  bool checked_pairs = false;     // the rows per group of a K-major weight are no multiple of 32
  bool ragged_boxes = false;      // the contraction lies in groups of any size
  bool ragged_columns = false;    // the columns of a part are no multiple of 32
  bool natural_epilogue = false;  // the epilogue works on an MN-major weight's columns as they come (column_order.h)
  int slot_bytes = 0;             // full-tile inputs of one block
  int scratch_bytes = 0;          // of each consumer warpgroup's epilogue
  std::vector<SharedBuffer> shared;
  int shared_bytes = 0;
  std::vector<WorkspaceRegion> workspace;
  std::vector<PointwiseLaunch> pointwise;  // GemmForm::none
  double cost = 0;                         // the cost model's (plan_cost.h), in cycles of a launch; less is better
  LaunchRecipe recipe;

  int part_tile() const { return schedule.tile_columns / gemm.parts; }

  // Whether accumulators leave registers for what waits from block to block.
  bool leaves_registers() const { return part_tile() * gemm.parts <= 128; }

  // The columns of both halves lie by turns in one MN-major weight, in pieces of a block at most: they are brought
  // together, and told apart among the accumulators.
  bool interleaved_weight() const {
    return gemm.split_weight() && natural_columns() && deal != Deal::halves && deal != Deal::pieces;
  }

  // Full-tile inputs whose halves alternate by less than a block come in one box for both; the input of half 0 stands
  // for it. Columns of a box:
  bool alternates(const EpilogueInput& in) const {
    return in.doubled && (deal == Deal::alternating || deal == Deal::eights);
  }
  bool brings_box(const EpilogueInput& in) const;
  int box_columns(const EpilogueInput& in) const { return alternates(in) ? 2 * block_columns : block_columns; }

  // The weight has a buffer for each group.
  bool pointer_weights(const ir::Graph& graph) const {
    return !gemm.b.empty() && graph.inputs[static_cast<size_t>(gemm.b[0].input)].tensor.pointer_axes != 0;
  }

  // Adds a region behind those that are there; finds one by its name.
  void add_region(std::string name, IntExpr bytes);
  const WorkspaceRegion& region(std::string_view name) const;

  // Rows of a tile lie in wgmma's own order: no box can permute rows that are contiguous in memory.
  bool natural_rows() const { return !gemm.a.empty() && gemm.a[0].major == Major::mn; }
  // … and so do columns, which are then put in order by shuffles.
  bool natural_columns() const { return !gemm.b.empty() && gemm.b[0].major == Major::mn; }

  // Whether a transposed sink may store four rows at once. The gap behind a group of place 0 may be cut by the
  // capacity.
  bool stores_4_rows(const Sink& sink) const {
    return sink.place != 0 && places[static_cast<size_t>(sink.place)].alignment % 4 == 0;
  }
};

// The text form of a plan: deterministic, versioned (base/version.h plan_text_version).
std::string print(const ir::Graph& graph, const KernelPlan& plan);

// How doubled columns are dealt out.
Deal deal_of(const Gemm& gemm);

// Whether what a sink stores is made of accumulators, and not of inputs alone.
bool uses_sums(const Epilogue& epilogue, const Sink& sink);

// Whether a sink stores what is made of a contraction over the rows of groups: of an empty group it has no terms.
inline bool contracts_groups(const KernelPlan& plan, const Sink& sink) {
  return plan.ragged_boxes && uses_sums(plan.epilogue, sink);
}

// Decides which scale bytes are stored together under the plan's tile (Sink::gathered_scales), and their scratch_bytes.
void gather_scales(KernelPlan& plan);

std::string_view major_name(Major major);
std::string_view deal_name(Deal deal);
std::string_view form_name(GemmForm form);
std::string_view sink_name(SinkKind kind);

// What must hold of any plan: buffers inside the target's shared memory and not overlapping, registers within the
// multiprocessor, tiles of whole blocks, fields of the parameter block aligned and apart. One line per fault.
std::vector<std::string> verify(const KernelPlan& plan);

// A plan that the kernel cannot run with.
struct ImpossiblePlan {
  std::string schedule, why;
};

}  // namespace epifuse::lowering
